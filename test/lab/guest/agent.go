// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"time"

	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/hypervisor"
)

const (
	// agentPeriod is how often the guest agent is asked: each answer costs an emulated guest time.
	agentPeriod = 10 * time.Second
	// agentTimeout is long, since the guest may be busy with its boot.
	agentTimeout = 8 * time.Second
)

// askAgent returns what a guest's agent knows. It has one client at a time.
func askAgent(ctx context.Context, socket string) (*hypervisor.GuestAgent, error) {
	ctx, cancel := context.WithTimeout(ctx, agentTimeout)
	defer cancel()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, fmt.Errorf("connect to guest agent: %w", err)
	}
	defer conn.Close() //nolint:errcheck // every answer has been read
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })
	defer stop()
	a := &agent{encoder: json.NewEncoder(conn), decoder: json.NewDecoder(conn)}
	if err := a.sync(); err != nil {
		return nil, err
	}
	return a.describe()
}

// agent is a connection to a guest agent.
type agent struct {
	encoder *json.Encoder
	decoder *json.Decoder
}

// sync skips the answers to earlier clients.
func (a *agent) sync() error {
	id := time.Now().UnixNano() % (1 << 31)
	if err := a.encoder.Encode(map[string]any{"execute": "guest-sync", "arguments": map[string]any{"id": id}}); err != nil {
		return fmt.Errorf("send to guest agent: %w", err)
	}
	for {
		var got message
		if err := a.decoder.Decode(&got); err != nil {
			return fmt.Errorf("read from guest agent: %w", err)
		}
		if string(got.Return) == fmt.Sprint(id) {
			return nil
		}
	}
}

func (a *agent) execute(command string, into any) error {
	if err := a.encoder.Encode(map[string]any{"execute": command}); err != nil {
		return fmt.Errorf("send %s to guest agent: %w", command, err)
	}
	var got message
	if err := a.decoder.Decode(&got); err != nil {
		return fmt.Errorf("read answer of guest agent to %s: %w", command, err)
	}
	if got.Error != nil {
		return fmt.Errorf("guest agent refuses %s: %s", command, got.Error.Desc)
	}
	return json.Unmarshal(got.Return, into)
}

func (a *agent) describe() (*hypervisor.GuestAgent, error) {
	var system struct { // in the order of KubeVirt's type
		Name          string `json:"name"`
		KernelRelease string `json:"kernel-release"`
		Version       string `json:"version"`
		PrettyName    string `json:"pretty-name"`
		VersionID     string `json:"version-id"`
		KernelVersion string `json:"kernel-version"`
		Machine       string `json:"machine"`
		ID            string `json:"id"`
	}
	if err := a.execute("guest-get-osinfo", &system); err != nil {
		return nil, err
	}
	interfaces, err := a.interfaces()
	return &hypervisor.GuestAgent{OS: kubevirtv1.VirtualMachineInstanceGuestOSInfo(system), Interfaces: interfaces}, err
}

func (a *agent) interfaces() ([]hypervisor.GuestInterface, error) {
	var all []struct {
		Name      string `json:"name"`
		MAC       string `json:"hardware-address"`
		Addresses []struct {
			IP string `json:"ip-address"`
		} `json:"ip-addresses"`
	}
	if err := a.execute("guest-network-get-interfaces", &all); err != nil {
		return nil, err
	}
	var found []hypervisor.GuestInterface
	for _, one := range all {
		if one.MAC == "" {
			continue
		}
		i := hypervisor.GuestInterface{Name: one.Name, MAC: one.MAC}
		for _, address := range one.Addresses {
			i.IPs = append(i.IPs, address.IP)
		}
		found = append(found, i)
	}
	return found, nil
}

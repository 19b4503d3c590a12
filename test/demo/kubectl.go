// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// cluster is one of the lab's clusters, with the namespace used by the demo.
type cluster struct {
	name       string
	kubeconfig string
	namespace  string
}

func (d *demo) control() cluster {
	return cluster{"control", d.lab.ControlKubeconfig, d.lab.Shoot.Namespace}
}

func (d *demo) provider() cluster {
	return cluster{"provider", d.lab.ProviderKubeconfig, d.lab.Shoot.ProviderNamespace}
}

// kubectl runs a command that a user could type, and shows it with its output.
func (d *demo) kubectl(ctx context.Context, c cluster, args ...string) error {
	return d.kubectlWith(ctx, c, nil, args...)
}

// atHome shortens paths for readers and shells.
func atHome(text string) string {
	home, err := os.UserHomeDir()
	if err != nil || len(home) < len("/x") {
		return text
	}
	return strings.ReplaceAll(text, home+"/", "$HOME/")
}

// kubectlWith is kubectl with standard input.
func (d *demo) kubectlWith(ctx context.Context, c cluster, input []byte, args ...string) error {
	d.out.Line("%s $ kubectl %s", c.name, atHome(strings.Join(args, " ")))
	command := d.kubectlCommand(ctx, c, args...)
	command.Stdin = bytes.NewReader(input)
	output, err := d.execute(command)
	if len(output) > 0 {
		d.out.Line("%s", indent(string(output)))
	}
	return err
}

func (d *demo) kubectlCommand(ctx context.Context, c cluster, args ...string) *exec.Cmd {
	// The cache is removed with the lab's data, however the demo ends.
	cache := filepath.Join(filepath.Dir(d.lab.LogDir), "data", "kubectl")
	quiet := []string{"--kubeconfig=" + c.kubeconfig, "--namespace=" + c.namespace, "--cache-dir=" + cache}
	return exec.CommandContext(ctx, d.lab.Kubectl, append(quiet, args...)...)
}

// object holds the fields that the demo reads of any Kubernetes object.
type object struct {
	Kind     string `json:"kind"`
	Metadata struct {
		Name    string            `json:"name"`
		Created time.Time         `json:"creationTimestamp"`
		Deleted time.Time         `json:"deletionTimestamp"`
		Labels  map[string]string `json:"labels"`
	} `json:"metadata"`
	Spec struct {
		Class struct {
			Name string `json:"name"`
		} `json:"class"`
	} `json:"spec"`
	ProviderSpec struct {
		Zone string `json:"zone"`
	} `json:"providerSpec"`
	Status struct {
		CurrentStatus struct {
			Phase string `json:"phase"`
		} `json:"currentStatus"`
		LastOperation struct {
			Description string `json:"description"`
			ErrorCode   string `json:"errorCode"`
			State       string `json:"state"`
		} `json:"lastOperation"`
		PrintableStatus string `json:"printableStatus"`
		NodeName        string `json:"nodeName"`
		GuestOSInfo     struct {
			ID string `json:"id"`
		} `json:"guestOSInfo"`
		NodeInfo struct {
			OSImage string `json:"osImage"`
		} `json:"nodeInfo"`
		Conditions []struct {
			Type   string `json:"type"`
			Status string `json:"status"`
		} `json:"conditions"`
	} `json:"status"`
}

// ready reports whether a Node is ready.
func (o *object) ready() bool {
	for _, c := range o.Status.Conditions {
		if c.Type == "Ready" {
			return c.Status == "True"
		}
	}
	return false
}

// list reads objects without showing the command.
func (d *demo) list(ctx context.Context, c cluster, kinds string, args ...string) ([]object, error) {
	command := d.kubectlCommand(ctx, c, append([]string{"get", kinds, "--output=json"}, args...)...)
	output, err := d.execute(command)
	if err != nil {
		return nil, fmt.Errorf("list %s in the %s cluster: %w", kinds, c.name, err)
	}
	var found struct {
		Items []object `json:"items"`
	}
	if err := json.Unmarshal(output, &found); err != nil {
		return nil, fmt.Errorf("decode %s of the %s cluster: %w", kinds, c.name, err)
	}
	return found.Items, nil
}

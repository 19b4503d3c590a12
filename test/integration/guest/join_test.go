// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

//go:build guest

package guest

import (
	"crypto/x509"
	"encoding/pem"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// TestJoin takes a worker from its Machine to a Node with pods and back: the data source NoCloud, user
// data in the format of cloud-config, and network data with a second interface.
func TestJoin(t *testing.T) {
	proves(t, "NoCloud, cloud-config, two interfaces: identity, certificate, SSH, disk growth, agent, pod, log, exec, drain, shutdown")

	w := newWorker(t, exampleUserData, `{"networks":[{"pod":{},"masquerade":{}},{"name":"storage","mac":"Stable"}]}`, addNetwork)
	node := w.awaitReady(t)

	t.Run("Identity", func(t *testing.T) { w.requireIdentity(t, node) })
	t.Run("Certificate", func(t *testing.T) { w.requireCertificate(t) })
	t.Run("Login", func(t *testing.T) { w.requireGuest(t) })
	t.Run("SecondInterface", func(t *testing.T) { w.requireInterfaces(t) })
	t.Run("Agent", func(t *testing.T) { w.requireAgent(t) })
	t.Run("Pod", func(t *testing.T) { w.requirePod(t) })
	t.Run("Deletion", func(t *testing.T) { w.requireGracefulEnd(t) })
}

// requireIdentity requires that Machine, VirtualMachine, guest and Node have one identity.
func (w *worker) requireIdentity(t *testing.T, node *corev1.Node) {
	t.Helper()

	require.Equal(t, w.machine.Name, node.Name)
	require.Equal(t, "kubevirt://"+w.machine.Name, node.Spec.ProviderID)
	require.Equal(t, w.machine.Name, w.mustLogin(t, "hostname"))

	id := w.instance(t).Spec.Domain.Firmware.UUID
	require.Equal(t, string(id), strings.ToLower(node.Status.NodeInfo.SystemUUID))
	require.Equal(t, strings.ReplaceAll(string(id), "-", ""), node.Status.NodeInfo.MachineID, "systemd derives it from the firmware")
}

// requireCertificate requires that the worker's kubelet got its certificate by a bootstrap token.
func (w *worker) requireCertificate(t *testing.T) {
	t.Helper()

	requests, err := w.Target.CertificatesV1().CertificateSigningRequests().List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)

	for _, request := range requests.Items {
		if strings.HasPrefix(request.Spec.Username, "system:bootstrap:") && len(request.Status.Certificate) > 0 && subject(t, request) == "system:node:"+w.machine.Name {
			return
		}
	}

	require.Fail(t, "no certificate was issued for a bootstrap token", "%d requests", len(requests.Items))
}

// subject returns the common name of the certificate that is requested.
func subject(t *testing.T, request certificatesv1.CertificateSigningRequest) string {
	t.Helper()

	block, _ := pem.Decode(request.Spec.Request)
	require.NotNil(t, block)

	parsed, err := x509.ParseCertificateRequest(block.Bytes)
	require.NoError(t, err)

	return parsed.Subject.CommonName
}

// requireGuest requires the resources of the ProviderSpec, in a guest into which the operator's key gives
// access.
func (w *worker) requireGuest(t *testing.T) {
	t.Helper()

	require.Equal(t, "debian", w.mustLogin(t, "id --user --name"))
	w.requireDataSource(t, "DataSourceNoCloud")
	require.Equal(t, "2", w.mustLogin(t, "nproc"))

	disk, err := strconv.ParseInt(w.mustLogin(t, "lsblk --bytes --noheadings --nodeps --output SIZE /dev/vda"), 10, 64)
	require.NoError(t, err)
	require.InEpsilon(t, int64(10<<30), disk, 0.01, "the size in the ProviderSpec; CDI rounds the claim up")

	system, err := strconv.ParseInt(strings.TrimSpace(w.mustLogin(t, "df --block-size=1 --output=size / | tail -n 1")), 10, 64)
	require.NoError(t, err)
	require.Greater(t, system, int64(9<<30), "the file system of the image has 3 GiB")
}

// requireDataSource requires that cloud-init has found its data, and has used all of it without an error.
func (w *worker) requireDataSource(t *testing.T, name string) {
	t.Helper()

	result := w.mustLogin(t, "cloud-init status --wait > /dev/null; cat /run/cloud-init/result.json")
	require.Contains(t, result, name)
	require.Contains(t, strings.Join(strings.Fields(result), ""), `"errors":[]`, result)
}

// requireInterfaces requires that the driver's network data configures both interfaces by DHCP, and that
// the default route is that of the first.
func (w *worker) requireInterfaces(t *testing.T) {
	t.Helper()

	addresses := w.mustLogin(t, "ip -4 -oneline address show")
	require.Contains(t, addresses, "10.0.2.15/24")
	require.Contains(t, addresses, "10.0.3.15/24")

	route := strings.Split(w.mustLogin(t, "ip -4 route show default"), "\n")
	require.Contains(t, route[0], "via 10.0.2.2 dev enp1s0")
	require.Contains(t, w.mustLogin(t, "ip -4 route get 192.0.2.1"), "dev enp1s0")
}

// requireAgent requires what KubeVirt reports of a guest with an agent.
func (w *worker) requireAgent(t *testing.T) {
	t.Helper()

	instance := w.instance(t)
	require.Equal(t, "debian", instance.Status.GuestOSInfo.ID)

	connected := false

	for _, condition := range instance.Status.Conditions {
		connected = connected || (condition.Type == kubevirtv1.VirtualMachineInstanceAgentConnected && condition.Status == corev1.ConditionTrue)
	}

	require.True(t, connected, "AgentConnected")

	for _, status := range instance.Status.Interfaces {
		require.NotEmpty(t, status.IP, status.Name)
		require.NotEmpty(t, status.InterfaceName, status.Name)
	}
}

// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

//go:build guest

package guest

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

// TestPowerCycle turns a worker off from the inside. Its user data has several parts, and its class
// configures no network.
func TestPowerCycle(t *testing.T) {
	proves(t, "NoCloud, MIME multipart; after a power-off, the same Node with its certificate, and its network under another MAC address")

	w := newWorker(t, inFormat(multipart), `{}`)
	before := w.awaitReady(t)
	w.requireDataSource(t, "DataSourceNoCloud")
	w.requireHostName(t)
	w.requireRestart(t, before)
	w.remove(t)
}

// TestConfigDrive does the same with the data source ConfigDrive, whose network data has another format,
// and with a script as user data.
func TestConfigDrive(t *testing.T) {
	proves(t, "ConfigDrive, shell script; after a power-off, the same Node with its certificate, and the network of the documented fragment")

	w := newWorker(t, inFormat(shellScript), documentedNetwork(t))
	before := w.awaitReady(t)
	w.requireDataSource(t, "DataSourceConfigDrive")
	require.Equal(t, string(w.instance(t).Spec.Domain.Firmware.UUID), w.mustLogin(t, "sudo cat /var/lib/cloud/data/instance-id"))
	w.requireHostName(t)
	w.requireRestart(t, before)
	w.remove(t)
}

// requireHostName requires that the guest has its name from KubeVirt's metadata: the user data does not
// set one.
func (w *worker) requireHostName(t *testing.T) {
	t.Helper()

	userData := w.mustLogin(t, "sudo cat /var/lib/cloud/instance/user-data.txt")
	require.NotContains(t, userData, "\nhostname:")
	require.Contains(t, userData, "kubevirt://"+w.machine.Name, "the user data was read")
	require.Equal(t, w.machine.Name, w.mustLogin(t, "hostname"))
}

// requireRestart powers the guest off. With runStrategy Always, KubeVirt starts it again, and it is the same
// Node, which needs no token: its certificate is on its disk.
func (w *worker) requireRestart(t *testing.T, before *corev1.Node) {
	t.Helper()

	requests, certificate, instance, address := w.countRequests(t), w.certificate(t), w.instance(t).UID, w.macAddress(t)

	// The connection ends with the guest, possibly before its answer.
	_, _ = w.login(t.Context(), t, "sudo systemctl poweroff")

	harness.Within(t, bootLimit, "the Node has booted again", func(ctx context.Context) (bool, error) {
		node, err := w.Target.CoreV1().Nodes().Get(ctx, w.machine.Name, metav1.GetOptions{})

		return err == nil && node.Status.NodeInfo.BootID != before.Status.NodeInfo.BootID && isReady(node), err
	})

	after := w.awaitReady(t)
	require.Equal(t, before.UID, after.UID, "the same Node")
	require.NotEqual(t, instance, w.instance(t).UID, "another instance of the VirtualMachine")
	require.NotEqual(t, address, w.macAddress(t), "the first interface has another address at each start")
	require.Equal(t, before.Status.NodeInfo.MachineID, after.Status.NodeInfo.MachineID)
	require.Equal(t, certificate, w.certificate(t))
	require.Equal(t, requests, w.countRequests(t), "no certificate was requested")
	require.Equal(t, w.machine.UID, w.OneOf(t, pool).UID, "the same Machine")
}

// macAddress returns the address of the guest's first interface.
func (w *worker) macAddress(t *testing.T) string {
	t.Helper()

	return w.mustLogin(t, "cat /sys/class/net/enp1s0/address")
}

// certificate returns a checksum of kubelet's client certificate and key.
func (w *worker) certificate(t *testing.T) string {
	t.Helper()

	return w.mustLogin(t, "sudo sha256sum /var/lib/kubelet/pki/kubelet-client-current.pem")
}

// countRequests returns the number of kubelets' requests for client certificates.
func (w *worker) countRequests(t *testing.T) int {
	t.Helper()

	list, err := w.Target.CertificatesV1().CertificateSigningRequests().List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)

	count := 0

	for _, request := range list.Items {
		if request.Spec.SignerName == "kubernetes.io/kube-apiserver-client-kubelet" {
			count++
		}
	}

	require.Positive(t, count)

	return count
}

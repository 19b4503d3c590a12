//go:build guest

package guest

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

// byName is network data that does not depend on the MAC address of the interface. KubeVirt gives the first
// interface another address at each start, and cloud-init's own configuration on images with netplan is bound
// to the first address: without this, the guest would have no network after a restart.
const byName = `"networkData":"version: 2\nethernets:\n  primary:\n    match: {name: \"e*\"}\n    dhcp4: true\n"`

// TestConfigDrive lets a worker join with the data source ConfigDrive, and user data of several parts.
func TestConfigDrive(t *testing.T) {
	w := newWorker(t, func(t *testing.T, s *harness.Shoot) string {
		t.Helper()

		return multipart(t, exampleUserData(t, s))
	}, `{"cloudInit":{"type":"ConfigDrive"}}`)
	require.Equal(t, w.machine.Name, w.awaitReady(t).Name)
	w.requireDataSource(t, "DataSourceConfigDrive")
	w.Scale(t, pool, 0)
	w.AwaitRunningWithin(t, bootLimit, 0)
}

// TestPowerCycle turns a worker off from the inside. With runStrategy Always, KubeVirt starts it again,
// and it is the same Node, which needs no token: its certificate is on its disk.
func TestPowerCycle(t *testing.T) {
	w := newWorker(t, exampleUserData, `{"cloudInit":{"type":"NoCloud",`+byName+`}}`)
	before := w.awaitReady(t)
	requests, certificate, instance := w.countRequests(t), w.certificate(t), w.instance(t).UID

	// The connection ends with the guest, possibly before its answer.
	_, _ = w.login(t.Context(), t, "sudo systemctl poweroff")

	harness.Within(t, bootLimit, "the Node has booted again", func(ctx context.Context) (bool, error) {
		node, err := w.Target.CoreV1().Nodes().Get(ctx, w.machine.Name, metav1.GetOptions{})

		return err == nil && node.Status.NodeInfo.BootID != before.Status.NodeInfo.BootID && isReady(node), err
	})

	after := w.awaitReady(t)
	require.Equal(t, before.UID, after.UID, "the same Node")
	require.NotEqual(t, instance, w.instance(t).UID, "another instance of the VirtualMachine")
	require.Equal(t, before.Status.NodeInfo.MachineID, after.Status.NodeInfo.MachineID)
	require.Equal(t, certificate, w.certificate(t))
	require.Equal(t, requests, w.countRequests(t), "no certificate was requested")
	require.Equal(t, w.machine.UID, w.OneOf(t, pool).UID, "the same Machine")
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

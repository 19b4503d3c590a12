// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

//go:build node

package node

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/guests"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

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

	for _, request := range w.requests(t) {
		if strings.HasPrefix(request.Spec.Username, "system:bootstrap:") && len(request.Status.Certificate) > 0 && subject(t, request) == "system:node:"+w.machine.Name {
			return
		}
	}

	require.Fail(t, "no certificate was issued for a bootstrap token")
}

// requests returns kubelets' requests for client certificates.
func (w *worker) requests(t *testing.T) []certificatesv1.CertificateSigningRequest {
	t.Helper()

	list, err := w.Target.CertificatesV1().CertificateSigningRequests().List(t.Context(), metav1.ListOptions{
		FieldSelector: "spec.signerName=" + certificatesv1.KubeAPIServerClientKubeletSignerName,
	})
	require.NoError(t, err)
	require.NotEmpty(t, list.Items)

	return list.Items
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

// requireGuest requires the resources of the ProviderSpec, in a guest into which the operator's key gives access, and in which cloud-init
// has used all of its data without an error.
func (w *worker) requireGuest(t *testing.T) {
	t.Helper()

	require.Equal(t, "debian", w.mustLogin(t, "id --user --name"))
	require.Equal(t, strconv.Itoa(processors()), w.mustLogin(t, "nproc"))

	result := w.mustLogin(t, "cloud-init status --wait > /dev/null; cat /run/cloud-init/result.json")
	require.Contains(t, result, "DataSourceNoCloud")
	require.Contains(t, strings.Join(strings.Fields(result), ""), `"errors":[]`, result)

	disk, err := strconv.ParseInt(w.mustLogin(t, "lsblk --bytes --noheadings --nodeps --output SIZE /dev/vda"), 10, 64)
	require.NoError(t, err)
	require.InEpsilon(t, int64(6<<30), disk, 0.01, "the size in the ProviderSpec; CDI rounds the claim up")

	system, err := strconv.ParseInt(strings.TrimSpace(w.mustLogin(t, "df --block-size=1 --output=size / | tail -n 1")), 10, 64)
	require.NoError(t, err)
	require.Greater(t, system, int64(5<<30), "the file system of the image has 3 GiB")
}

// requireAgent requires what KubeVirt reports of a guest with an agent.
func (w *worker) requireAgent(t *testing.T) {
	t.Helper()

	require.Equal(t, "debian", guests.AwaitAgent(t, w.Shoot, w.machine.Name).Status.GuestOSInfo.ID)
}

// certificate returns a checksum of kubelet's client certificate and key.
func (w *worker) certificate(t *testing.T) string {
	t.Helper()

	return w.mustLogin(t, "sudo sha256sum /var/lib/kubelet/pki/kubelet-client-current.pem")
}

// requireRestart powers the guest off. With runStrategy Always, KubeVirt starts it again, and it is the same
// Node, which needs no token: its certificate is on its disk.
func (w *worker) requireRestart(t *testing.T, before *corev1.Node) {
	t.Helper()

	requests, certificate, instance := len(w.requests(t)), w.certificate(t), w.instance(t).UID

	// The connection ends with the guest, possibly before its answer.
	_, _ = w.login(t, "sudo systemctl poweroff")

	harness.Within(t, bootLimit, "the Node has booted again", func(ctx context.Context) (bool, error) {
		node, err := w.Target.CoreV1().Nodes().Get(ctx, w.machine.Name, metav1.GetOptions{})

		return err == nil && node.Status.NodeInfo.BootID != before.Status.NodeInfo.BootID && isReady(node), err
	})

	after := w.awaitJoined(t)
	require.Equal(t, before.UID, after.UID, "the same Node")
	require.NotEqual(t, instance, w.instance(t).UID, "another instance of the VirtualMachine")
	require.Equal(t, before.Status.NodeInfo.MachineID, after.Status.NodeInfo.MachineID)
	require.Equal(t, certificate, w.certificate(t))
	require.Len(t, w.requests(t), requests, "no certificate was requested")
	require.Equal(t, w.machine.UID, w.OneOf(t, pool).UID, "the same Machine")
}

// insight is what a login shows of a guest.
type insight struct {
	boot   string // which another boot changes
	uptime float64
}

func (w *worker) lookIntoGuest(t *testing.T) insight {
	t.Helper()

	boot, uptime, found := strings.Cut(w.mustLogin(t, "cat /proc/sys/kernel/random/boot_id; cut -d' ' -f1 /proc/uptime"), "\n")
	require.True(t, found)

	seconds, err := strconv.ParseFloat(strings.TrimSpace(uptime), 64)
	require.NoError(t, err)

	return insight{boot: boot, uptime: seconds}
}

// awaitLease waits until the worker's kubelet has renewed its Lease after a time.
func (w *worker) awaitLease(t *testing.T, after time.Time) {
	t.Helper()
	harness.Eventually(t, "kubelet sends a heartbeat", func(ctx context.Context) (bool, error) {
		lease, err := w.Target.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(ctx, w.machine.Name, metav1.GetOptions{})

		return err == nil && lease.Spec.RenewTime != nil && lease.Spec.RenewTime.After(after), err
	})
}

// watchReadiness returns a function that ends the watch, and returns the states in which the worker's Node was not ready.
func (w *worker) watchReadiness(t *testing.T) func() []string {
	t.Helper()

	nodes, err := w.Target.CoreV1().Nodes().Watch(t.Context(), metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, w.machine.Name).String(),
	})
	require.NoError(t, err)

	lapses := make(chan []string, 1)
	stopped := make(chan struct{})

	go func() {
		var seen []string

		for event := range nodes.ResultChan() {
			if n, ok := event.Object.(*corev1.Node); ok && isReady(n) {
				continue
			}

			select {
			case <-stopped: // which is an error of the watch
			default:
				seen = append(seen, fmt.Sprintf("%s: %+v", event.Type, event.Object))
			}
		}

		lapses <- seen
	}()

	return func() []string {
		close(stopped)
		nodes.Stop()

		return <-lapses
	}
}

// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

//go:build node

package node

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/diagnose"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/certificates"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/node"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/node/images"
)

// clonedGuestSpec returns the ProviderSpec of a worker whose root disk is a clone of a golden image, which is imported with a checksum.
func clonedGuestSpec(t *testing.T, s *harness.Shoot) []byte {
	t.Helper()

	image, err := os.Open(filepath.Clean(guestImage))
	require.NoError(t, err)
	defer image.Close() //nolint:errcheck // read-only

	sum := sha256.New()
	_, err = io.Copy(sum, image)
	require.NoError(t, err)

	return harness.MergeFields(t, guestSpec(t, s), fmt.Sprintf(`{"disablePreAllocatedDataVolumes":false,"goldenImage":{"size":"4Gi"},
		"rootVolume":{"source":{"http":{"url":%q,"checksum":"sha256:%x"}},"storage":{"resources":{"requests":{"storage":"6Gi"}}}}}`,
		serveGuest(t), sum.Sum(nil)))
}

// requireClone requires that the worker's only disk is a clone of the shoot's golden image.
func (w *worker) requireClone(t *testing.T) {
	t.Helper()

	vm, err := w.KubeVirt.KubevirtV1().VirtualMachines(w.ProviderNamespace).Get(t.Context(), w.machine.Name, metav1.GetOptions{})
	require.NoError(t, err)
	require.Len(t, vm.Spec.DataVolumeTemplates, 1)

	source := vm.Spec.DataVolumeTemplates[0].Spec.Source
	require.NotNil(t, source.PVC, "it is cloned")

	image, err := w.CDI.CdiV1beta1().DataVolumes(w.ProviderNamespace).Get(t.Context(), source.PVC.Name, metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, cdiv1beta1.Succeeded, image.Status.Phase)
	require.Equal(t, "4Gi", image.Spec.Storage.Resources.Requests.Storage().String(), "the size of the golden image")
}

// TestImportFromRegistry runs a machine whose root disk comes from a registry over TLS, whose CA is in a ConfigMap. Its guest counts: the
// content has arrived.
func TestImportFromRegistry(t *testing.T) {
	address, ca := serveRegistry(t, images.CounterDisk())

	w := newMachine(t, noUserData, func(t *testing.T, s *harness.Shoot) []byte {
		t.Helper()

		const name = "registry-ca"

		_, err := s.Kube.CoreV1().ConfigMaps(s.ProviderNamespace).Create(t.Context(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Data:       map[string]string{"ca.crt": string(ca)},
		}, metav1.CreateOptions{})
		require.NoError(t, err)

		return specWith(t, s, fmt.Sprintf(`{"source":{"registry":{"url":"docker://%s/worker:1","certConfigMap":%q}},
			"storage":{"resources":{"requests":{"storage":"16Mi"}}}}`, address, name), 0)
	})
	w.awaitRunning(t)
	w.awaitCount(t, 1)
	w.AwaitEnd(t)
}

// TestImportWithWrongChecksum requires that the Machine and diagnose say that the image is not that of the ProviderSpec, as CDI's importer finds.
func TestImportWithWrongChecksum(t *testing.T) {
	w := newMachine(t, noUserData, func(t *testing.T, s *harness.Shoot) []byte {
		t.Helper()

		root := fmt.Sprintf(`{"source":{"http":{"url":%q,"checksum":"sha256:%064d"}},"storage":{"resources":{"requests":{"storage":"16Mi"}}}}`, serveCounter(t), 0)

		return harness.MergeFields(t, specWith(t, s, root, 0), `{"disablePreAllocatedDataVolumes":false}`)
	})
	w.recordStates(t)

	const cause = "ImageCorrupt"

	found := w.victim().AwaitCause(t, cause)
	require.Contains(t, found.Cause.Message, "checksum mismatch")
	harness.Eventually(t, "the Machine reports the cause", func(ctx context.Context) (bool, error) {
		m, err := w.MCM.MachineV1alpha1().Machines(w.Namespace).Get(ctx, w.machine.Name, metav1.GetOptions{})

		return err == nil && m.Status.LastOperation.State == v1alpha1.MachineStateFailed && strings.Contains(m.Status.LastOperation.Description, cause), err
	})
	w.Scale(t, pool, 0)
	w.AwaitImageEnd(t)
}

// TestCopyWithoutRoom requires that diagnose finds why a machine waits for its disk: its node has room for one of the two pods that copy the
// golden image. CDI reports that the copy is in progress.
func TestCopyWithoutRoom(t *testing.T) {
	w := newMachine(t, noUserData, func(t *testing.T, s *harness.Shoot) []byte {
		t.Helper()

		return harness.MergeFields(t, importedSpec(corev1.ReadWriteMany, 0)(t, s), `{"disablePreAllocatedDataVolumes":false}`)
	})
	first := w.awaitRunning(t) // The image has been imported.

	w.RequestForCDI(t, "1100m") // Each node has two processors.
	w.cordonOthers(t, first, "cordon")
	w.Scale(t, pool, 2)
	w.machine = w.nextMachine(t)
	w.recordStates(t)

	harness.Eventually(t, "diagnose finds the pod that has no room", func(ctx context.Context) (bool, error) {
		found, _ := w.DiagnoseMachine(ctx, t, w.machine.Name)
		if found.Cause == nil || found.Cause.Reason != diagnose.Unschedulable {
			return false, nil
		}

		require.Contains(t, found.Cause.Message, "-source-pod: 0/")
		require.Contains(t, found.Cause.Message, "Insufficient cpu")

		return true, nil
	})

	w.cordonOthers(t, first, "uncordon")
	w.awaitRunning(t)
	w.awaitCount(t, 1)
	w.Scale(t, pool, 0)
	w.AwaitImageEnd(t)
}

// nextMachine waits until there is one more Machine, and returns it.
func (w *worker) nextMachine(t *testing.T) (next *v1alpha1.Machine) {
	t.Helper()

	harness.Eventually(t, "there is another Machine", func(ctx context.Context) (bool, error) {
		list, err := w.MCM.MachineV1alpha1().Machines(w.Namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}

		for _, m := range list.Items {
			if m.Name != w.machine.Name {
				next = &m
			}
		}

		return next != nil, nil
	})

	return next
}

// serveRegistry serves the container disk worker:1, with an image of the given content, over TLS, and returns the address of the registry
// and its CA.
func serveRegistry(t *testing.T, content []byte) (address string, ca []byte) {
	t.Helper()

	folder := t.TempDir()
	disk := filepath.Join(folder, "disk.img")
	require.NoError(t, os.WriteFile(disk, content, 0o600))

	registry, err := images.Registry(disk, folder)
	require.NoError(t, err)

	template := certificates.Server("registry")
	template.IPAddresses = []net.IP{net.ParseIP(node.Gateway)}
	files := certificates.NewAuthority(t).Issue(t, t.TempDir(), template)
	ca, err = os.ReadFile(files.Authorities)
	require.NoError(t, err)

	var listen net.ListenConfig

	listener, err := listen.Listen(t.Context(), "tcp", node.Gateway+":0")
	require.NoError(t, err)

	server := &http.Server{
		ReadHeaderTimeout: time.Minute,
		Handler:           registry,
	}

	go func() { _ = server.ServeTLS(listener, files.Certificate, files.Key) }()

	t.Cleanup(func() { _ = server.Close() })

	return listener.Addr().String(), ca
}

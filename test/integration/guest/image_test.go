// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

//go:build guest

package guest

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/render"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/guest"
)

// TestImportedImage boots a worker from an image that CDI's code has imported over HTTP: qcow2 is converted,
// its checksum is checked, the golden image is cloned, and the clone boots, with user data in the format of
// Gardener's extension for Ubuntu.
func TestImportedImage(t *testing.T) {
	proves(t, "import of qcow2 over HTTP with a checksum, golden image, clone, boot; cloud-config-archive")

	image, mark := guestImage(t)
	server := serveFile(t, image)
	w := newWorker(t, inFormat(archive), fmt.Sprintf(`{"goldenImage":{"size":"4Gi"},
		"rootVolume":{"source":{"http":{"url":%q,"checksum":%q}},
			"storage":{"storageClassName":"immediate","accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"10Gi"}}}}}`,
		server+"/worker.qcow2", "sha256:"+checksum(t, image)), importForReal)
	w.awaitReady(t)
	w.requireHostName(t)
	require.Equal(t, mark, w.mustLogin(t, fmt.Sprintf("sudo dd if=/dev/vda bs=1 skip=%d count=%d status=none", markOffset, len(mark))),
		"the root disk is a copy of the image that was served")

	images := w.goldenImages(t)
	require.Len(t, images, 1)
	require.Equal(t, cdiv1beta1.Succeeded, images[0].Status.Phase)
	require.Equal(t, images[0].Name, w.rootDisk(t).Spec.Source.PVC.Name, "the root disk is a clone of the golden image")

	w.remove(t)
}

// TestImportFromRegistry imports an image from a registry over TLS, whose CA is in a ConfigMap, and requires
// that its content arrives.
func TestImportFromRegistry(t *testing.T) {
	proves(t, "import from a registry over TLS, whose CA is in a ConfigMap")

	s := newImportingShoot(t)
	content := harness.Incompressible(3 << 20)
	registry := newRegistry(t, content)
	s.addCA(t, "registry-ca", registry.Certificate().Raw)

	imported := s.importImage(t, "registry", &cdiv1beta1.DataVolumeSource{Registry: &cdiv1beta1.DataVolumeSourceRegistry{
		URL:           new("docker://" + registry.Listener.Addr().String() + "/worker:1"),
		CertConfigMap: new("registry-ca"),
	}})
	require.Equal(t, cdiv1beta1.Succeeded, imported.Status.Phase)
	s.requireContent(t, imported, content)
}

// TestWrongChecksum requires that an image with another checksum than the ProviderSpec's is refused
// permanently, as CDI's importer judges it.
func TestWrongChecksum(t *testing.T) {
	proves(t, "an image with a wrong checksum is refused")

	s := newImportingShoot(t)
	file := filepath.Join(t.TempDir(), "worker.qcow2")
	require.NoError(t, os.WriteFile(file, harness.Incompressible(1<<20), 0o600))

	refused := s.importImage(t, "checksum", &cdiv1beta1.DataVolumeSource{HTTP: &cdiv1beta1.DataVolumeSourceHTTP{
		URL:      serveFile(t, file) + "/worker.qcow2",
		Checksum: "sha256:" + fmt.Sprintf("%064d", 0),
	}})
	require.Equal(t, cdiv1beta1.Failed, refused.Status.Phase)

	running := slices.IndexFunc(refused.Status.Conditions, func(c cdiv1beta1.DataVolumeCondition) bool { return c.Type == cdiv1beta1.DataVolumeRunning })
	require.GreaterOrEqual(t, running, 0, "%+v", refused.Status)
	require.Contains(t, refused.Status.Conditions[running].Message, "checksum mismatch")
}

// markOffset is that of the last sector before the partition. GRUB, which begins in the second sector, is
// much shorter.
const markOffset = 1<<20 - 512

// guestImage returns the guests' image as qcow2, with a random mark outside of its partition. Without an
// import, the lab would boot the image without the mark.
func guestImage(t *testing.T) (file, mark string) {
	t.Helper()

	image, err := guest.EnsureImage(t.Context(), harness.Lab().Binaries.Kubelet, io.Discard)
	require.NoError(t, err)

	raw := filepath.Join(t.TempDir(), "worker.raw")
	runOnHost(t, "cp", "--sparse=always", image, raw)

	disk, err := os.OpenFile(raw, os.O_WRONLY, 0)
	require.NoError(t, err)

	mark = rand.Text()
	_, err = disk.WriteAt([]byte(mark), markOffset)
	require.NoError(t, err)
	require.NoError(t, disk.Close())

	file = filepath.Join(t.TempDir(), "worker.qcow2")
	runOnHost(t, "qemu-img", "convert", "-O", "qcow2", raw, file)

	info, err := os.Stat(file)
	require.NoError(t, err)
	t.Logf("the guests' image has %d MiB as qcow2", info.Size()>>20)

	return file, mark
}

func runOnHost(t *testing.T, program string, args ...string) {
	t.Helper()

	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()

	output, err := exec.CommandContext(ctx, program, args...).CombinedOutput()
	require.NoError(t, err, string(output))
}

func checksum(t *testing.T, name string) string {
	t.Helper()

	file, err := os.Open(filepath.Clean(name))
	require.NoError(t, err)

	defer file.Close() //nolint:errcheck // read-only

	h := sha256.New()
	_, err = io.Copy(h, file)
	require.NoError(t, err)

	return hex.EncodeToString(h.Sum(nil))
}

// serveFile serves the folder of a file over HTTP, and returns its URL.
func serveFile(t *testing.T, name string) string {
	t.Helper()

	server := httptest.NewServer(http.FileServer(http.Dir(filepath.Dir(name))))
	t.Cleanup(server.Close)

	return server.URL
}

// importForReal makes the importer pods of a shoot import images.
func importForReal(t *testing.T, s *harness.Shoot) {
	t.Helper()

	patch := []byte(`{"metadata":{"annotations":{"sim.lab/import":"real"}}}`)
	_, err := s.Kube.CoreV1().Namespaces().Patch(t.Context(), s.ProviderNamespace, types.MergePatchType, patch, metav1.PatchOptions{})
	require.NoError(t, err)
}

// rootDisk returns the DataVolume of the worker's only disk, which is cloned.
func (w *worker) rootDisk(t *testing.T) *cdiv1beta1.DataVolume {
	t.Helper()

	list, err := w.CDI.CdiV1beta1().DataVolumes(w.ProviderNamespace).List(t.Context(), metav1.ListOptions{
		LabelSelector: render.LabelMachine + "=" + w.machine.Name,
	})
	require.NoError(t, err)
	require.Len(t, list.Items, 1)
	require.NotNil(t, list.Items[0].Spec.Source)
	require.NotNil(t, list.Items[0].Spec.Source.PVC, "it is cloned")

	return &list.Items[0]
}

// goldenImages returns the golden images of a worker's shoot.
func (w *worker) goldenImages(t *testing.T) []cdiv1beta1.DataVolume {
	t.Helper()

	list, err := w.CDI.CdiV1beta1().DataVolumes(w.ProviderNamespace).List(t.Context(), metav1.ListOptions{
		LabelSelector: "kubevirt.machine.gardener.cloud/golden-image,!mcm.gardener.cloud/role",
	})
	require.NoError(t, err)

	return list.Items
}

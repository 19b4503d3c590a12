// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

//go:build node

package node

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/certificates"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/node"
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

// TestImportFromRegistry imports an image from a registry over TLS, whose CA is in a ConfigMap, and requires
// that its content arrives.
func TestImportFromRegistry(t *testing.T) {
	s := harness.NewShoot(t)
	content := harness.Incompressible(3 << 20)
	address, ca := serveRegistry(t, content)
	_, err := s.Kube.CoreV1().ConfigMaps(s.ProviderNamespace).Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "registry-ca"},
		Data:       map[string]string{"ca.crt": string(ca)},
	}, metav1.CreateOptions{})
	require.NoError(t, err)

	imported := importImage(t, s, &cdiv1beta1.DataVolumeSource{Registry: &cdiv1beta1.DataVolumeSourceRegistry{
		URL:           new("docker://" + address + "/worker:1"),
		CertConfigMap: new("registry-ca"),
	}})
	require.Equal(t, cdiv1beta1.Succeeded, imported.Status.Phase)

	claim, err := s.Kube.CoreV1().PersistentVolumeClaims(s.ProviderNamespace).Get(t.Context(), imported.Name, metav1.GetOptions{})
	require.NoError(t, err)
	volume, err := os.ReadFile(filepath.Join(harness.Lab().Nodes.Volumes(), claim.Spec.VolumeName, "disk.img"))
	require.NoError(t, err)
	require.True(t, bytes.HasPrefix(volume, content), "the image's content")
}

// TestWrongChecksum requires that an image with another checksum than the ProviderSpec's is refused
// permanently, as CDI's importer judges it.
func TestWrongChecksum(t *testing.T) {
	refused := importImage(t, harness.NewShoot(t), &cdiv1beta1.DataVolumeSource{HTTP: &cdiv1beta1.DataVolumeSourceHTTP{
		URL:      serveCounter(t),
		Checksum: "sha256:" + fmt.Sprintf("%064d", 0),
	}})
	require.Equal(t, cdiv1beta1.Failed, refused.Status.Phase)

	running := slices.IndexFunc(refused.Status.Conditions, func(c cdiv1beta1.DataVolumeCondition) bool { return c.Type == cdiv1beta1.DataVolumeRunning })
	require.GreaterOrEqual(t, running, 0, "%+v", refused.Status)
	require.Contains(t, refused.Status.Conditions[running].Message, "checksum mismatch")
}

// importImage creates a DataVolume, and returns it when its import has succeeded or failed permanently.
func importImage(t *testing.T, s *harness.Shoot, source *cdiv1beta1.DataVolumeSource) *cdiv1beta1.DataVolume {
	t.Helper()

	const name = "imported"

	volumes := s.CDI.CdiV1beta1().DataVolumes(s.ProviderNamespace)
	_, err := volumes.Create(t.Context(), &cdiv1beta1.DataVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: cdiv1beta1.DataVolumeSpec{
			Source: source,
			Storage: &cdiv1beta1.StorageSpec{
				Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("16Mi")}},
			},
		},
	}, metav1.CreateOptions{})
	require.NoError(t, err)

	var found *cdiv1beta1.DataVolume

	harness.Eventually(t, "the import has ended", func(ctx context.Context) (bool, error) {
		found, err = volumes.Get(ctx, name, metav1.GetOptions{})

		return err == nil && (found.Status.Phase == cdiv1beta1.Succeeded || found.Status.Phase == cdiv1beta1.Failed), err
	})

	return found
}

// serveRegistry serves the container disk worker:1, with an image of the given content, over TLS, and returns the address of the registry
// and its CA.
func serveRegistry(t *testing.T, content []byte) (address string, ca []byte) {
	t.Helper()

	template := certificates.Server("registry")
	template.IPAddresses = []net.IP{net.ParseIP(node.Gateway)}
	files := certificates.NewAuthority(t).Issue(t, t.TempDir(), template)
	ca, err := os.ReadFile(files.Authorities)
	require.NoError(t, err)

	var listen net.ListenConfig

	listener, err := listen.Listen(t.Context(), "tcp", node.Gateway+":0")
	require.NoError(t, err)

	server := &http.Server{
		ReadHeaderTimeout: time.Minute,
		Handler:           registry(t, content),
	}

	go func() { _ = server.ServeTLS(listener, files.Certificate, files.Key) }()

	t.Cleanup(func() { _ = server.Close() })

	return listener.Addr().String(), ca
}

const manifestType = "application/vnd.docker.distribution.manifest.v2+json"

// registry returns a registry with one image, which has one layer.
func registry(t *testing.T, content []byte) http.HandlerFunc {
	t.Helper()

	layer := diskLayer(t, content)
	config := []byte(fmt.Sprintf(`{"architecture":"amd64","os":"linux","rootfs":{"type":"layers","diff_ids":["%s"]}}`, digest(layer)))
	manifest, err := json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": manifestType,
		"config": descriptor("application/vnd.docker.container.image.v1+json", config),
		"layers": []any{descriptor("application/vnd.docker.image.rootfs.diff.tar", layer)},
	})
	require.NoError(t, err)

	blobs := map[string][]byte{digest(layer): layer, digest(config): config}

	return func(w http.ResponseWriter, r *http.Request) {
		switch _, blob, found := strings.Cut(r.URL.Path, "/blobs/"); {
		case found && blobs[blob] != nil:
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(blobs[blob]))
		case strings.Contains(r.URL.Path, "/manifests/"):
			w.Header().Set("Content-Type", manifestType)
			w.Header().Set("Docker-Content-Digest", digest(manifest))
			_, _ = w.Write(manifest)
		case r.URL.Path == "/v2/":
		default:
			http.NotFound(w, r)
		}
	}
}

func digest(data []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(data)) }

func descriptor(mediaType string, data []byte) map[string]any {
	return map[string]any{"mediaType": mediaType, "size": len(data), "digest": digest(data)}
}

// diskLayer returns the layer of a container disk, as KubeVirt and CDI expect it.
func diskLayer(t *testing.T, content []byte) []byte {
	t.Helper()

	var buffer bytes.Buffer

	w := tar.NewWriter(&buffer)
	require.NoError(t, w.WriteHeader(&tar.Header{Name: "disk/", Typeflag: tar.TypeDir, Mode: 0o755}))
	require.NoError(t, w.WriteHeader(&tar.Header{Name: "disk/disk.img", Mode: 0o644, Size: int64(len(content))}))
	_, err := w.Write(content)
	require.NoError(t, err)
	require.NoError(t, w.Close())

	return buffer.Bytes()
}

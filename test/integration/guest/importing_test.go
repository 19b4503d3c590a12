// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

//go:build guest

package guest

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

// importingShoot is a shoot whose importer pods import images.
type importingShoot struct{ *harness.Shoot }

func newImportingShoot(t *testing.T) importingShoot {
	t.Helper()

	s := importingShoot{harness.NewShoot(t)}
	importForReal(t, s.Shoot)

	return s
}

// addCA creates a ConfigMap with a certificate.
func (s importingShoot) addCA(t *testing.T, name string, certificate []byte) {
	t.Helper()

	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate})
	_, err := s.Kube.CoreV1().ConfigMaps(s.ProviderNamespace).Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Data:       map[string]string{"ca.crt": string(text)},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
}

// importImage creates a DataVolume, and returns it when its import has succeeded or failed permanently.
func (s importingShoot) importImage(t *testing.T, name string, source *cdiv1beta1.DataVolumeSource) *cdiv1beta1.DataVolume {
	t.Helper()

	volumes := s.CDI.CdiV1beta1().DataVolumes(s.ProviderNamespace)
	_, err := volumes.Create(t.Context(), &cdiv1beta1.DataVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: cdiv1beta1.DataVolumeSpec{
			Source: source,
			Storage: &cdiv1beta1.StorageSpec{
				StorageClassName: new("immediate"),
				AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources:        corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
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

// requireContent requires that a volume begins with the content of an image.
func (s importingShoot) requireContent(t *testing.T, volume *cdiv1beta1.DataVolume, content []byte) {
	t.Helper()

	claim, err := s.Kube.CoreV1().PersistentVolumeClaims(s.ProviderNamespace).Get(t.Context(), volume.Name, metav1.GetOptions{})
	require.NoError(t, err)

	file, err := os.Open(filepath.Join(harness.Lab().Dir, "data", "guests", "volumes", claim.Spec.VolumeName, "disk.img"))
	require.NoError(t, err)

	defer file.Close() //nolint:errcheck // read-only

	got := make([]byte, len(content))
	_, err = file.ReadAt(got, 0)
	require.NoError(t, err)
	require.True(t, bytes.Equal(content, got), "the image's content")
}

// newRegistry serves the container disk worker:1, with an image of the given content, over TLS.
func newRegistry(t *testing.T, content []byte) *httptest.Server {
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
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
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
	}))
	t.Cleanup(server.Close)

	return server
}

const manifestType = "application/vnd.docker.distribution.manifest.v2+json"

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

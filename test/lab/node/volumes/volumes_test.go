// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package volumes

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

func newDriver(t *testing.T, client *fake.Clientset) *Driver {
	t.Helper()
	return &Driver{Client: client, Provisioner: "own", Folder: t.TempDir(), NodeFolder: "/volumes", Zone: "a", Log: slog.New(slog.DiscardHandler)}
}

func newClaim() *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "claim", Namespace: "default", UID: "1", Annotations: map[string]string{provisionerAnnotation: "own"}},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: new("shared"),
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany},
			Resources:        corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
}

// TestDriver_Reconcile takes a volume from its claim to its end.
func TestDriver_Reconcile(t *testing.T) {
	t.Parallel()
	client := fake.NewClientset(newClaim())
	d := newDriver(t, client)
	for range 2 { // the second finds that it exists
		require.NoError(t, d.reconcile(t.Context()))
	}
	volume, err := client.CoreV1().PersistentVolumes().Get(t.Context(), "pvc-1", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, "/volumes/pvc-1", volume.Spec.HostPath.Path)
	require.Equal(t, "1Gi", volume.Spec.Capacity.Storage().String())
	require.Equal(t, []string{"a"}, volume.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values, "other nodes do not have it")
	info, err := os.Stat(filepath.Join(d.Folder, "pvc-1"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o777), info.Mode().Perm(), "users of pods write to it")

	volume.Status.Phase = corev1.VolumeReleased
	_, err = client.CoreV1().PersistentVolumes().UpdateStatus(t.Context(), volume, metav1.UpdateOptions{})
	require.NoError(t, err)
	require.NoError(t, client.CoreV1().PersistentVolumeClaims("default").Delete(t.Context(), "claim", metav1.DeleteOptions{}))
	require.NoError(t, d.reconcile(t.Context()))
	require.NoDirExists(t, filepath.Join(d.Folder, "pvc-1"))
	left, err := client.CoreV1().PersistentVolumes().List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Empty(t, left.Items)
}

func TestDriver_IsWaiting(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		reason string
		change func(*corev1.PersistentVolumeClaim)
		want   bool
	}{
		"own":       {reason: "the binder has chosen this driver", change: func(*corev1.PersistentVolumeClaim) {}, want: true},
		"other":     {reason: "another driver provides it", change: func(c *corev1.PersistentVolumeClaim) { c.Annotations[provisionerAnnotation] = "other" }},
		"bound":     {reason: "it has a volume", change: func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "pvc-2" }},
		"deleted":   {reason: "nothing will use it", change: func(c *corev1.PersistentVolumeClaim) { c.DeletionTimestamp = new(metav1.Now()) }},
		"populated": {reason: "CDI provides a volume with content", change: func(c *corev1.PersistentVolumeClaim) { c.Spec.DataSourceRef = &corev1.TypedObjectReference{} }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			claim := newClaim()
			test.change(claim)
			require.Equal(t, test.want, newDriver(t, fake.NewClientset()).isWaiting(claim), test.reason)
		})
	}
}

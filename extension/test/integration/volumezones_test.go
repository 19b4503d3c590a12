// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"testing"

	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/test/seed"
)

// keepVolumesInZone creates PersistentVolumes of the StorageClass default, whose zone is europe-west1-b, as
// csi-provisioner does. The API server of the shoot calls the extension's webhook for them.
func keepVolumesInZone(t *testing.T, shoot *seed.Botanist) {
	t.Helper()

	requireApplied(t, shoot, "extension-controlplane-shoot-webhooks")

	early := persistentVolume("early")
	require.NoError(t, theSeed.Target.Create(t.Context(), early), "the webhook does not know the shoot, and the volume is created")
	require.Nil(t, early.Spec.NodeAffinity)

	runKubeAPIServer(t, shoot)

	// The extension remembers for some seconds that it did not know the address.
	eventually(t, func(ctx context.Context) (bool, string) {
		probe := persistentVolume("probe")
		err := theSeed.Target.Create(ctx, probe, client.DryRunAll)

		return err == nil && probe.Spec.NodeAffinity != nil, fmt.Sprintf("%v %v", err, probe.Spec.NodeAffinity)
	})

	late := persistentVolume("late")
	require.NoError(t, theSeed.Target.Create(t.Context(), late))
	requireZone(t, late)

	before := early.DeepCopy()
	early.Finalizers = append(early.Finalizers, "external-attacher/csi-kubevirt-io")
	require.NoError(t, theSeed.Target.Patch(t.Context(), early, client.MergeFrom(before)), "as csi-attacher does before the first attachment")
	requireZone(t, early)

	for _, v := range []*corev1.PersistentVolume{early, late} {
		require.NoError(t, theSeed.Target.Patch(t.Context(), v, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
		require.NoError(t, theSeed.Target.Delete(t.Context(), v))
	}
}

func persistentVolume(name string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			StorageClassName:       "default",
			AccessModes:            []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Capacity:               corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "csi.kubevirt.io", VolumeHandle: name}},
		},
	}
}

func requireZone(t *testing.T, v *corev1.PersistentVolume) {
	t.Helper()
	require.NotNil(t, v.Spec.NodeAffinity, v.Name)
	require.Equal(t, []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
		{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{"europe-west1-b"}},
	}}}, v.Spec.NodeAffinity.Required.NodeSelectorTerms)
}

// runKubeAPIServer creates the Pod of the shoot's kube-apiserver, which the lab runs as a process on the
// loopback address. The extension recognizes the shoot by the address of this Pod.
func runKubeAPIServer(t *testing.T, shoot *seed.Botanist) {
	t.Helper()

	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: shoot.Namespace, Name: "default"}}
	require.NoError(t, client.IgnoreAlreadyExists(theSeed.Client.Create(t.Context(), account)))

	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: shoot.Namespace,
			Name:      "kube-apiserver",
			Labels:    map[string]string{v1beta1constants.LabelApp: v1beta1constants.LabelKubernetes, v1beta1constants.LabelRole: v1beta1constants.LabelAPIServer},
		},
		Spec: corev1.PodSpec{
			AutomountServiceAccountToken: ptr.To(false),
			Containers:                   []corev1.Container{{Name: "kube-apiserver", Image: "kube-apiserver"}},
		},
	}
	require.NoError(t, theSeed.Client.Create(t.Context(), pod))

	before := client.MergeFrom(pod.DeepCopy()) // A scheduler may write, too.
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "127.0.0.1", PodIPs: []corev1.PodIP{{IP: "127.0.0.1"}}}
	require.NoError(t, theSeed.Client.Status().Patch(t.Context(), pod, before))
	t.Cleanup(func() {
		require.NoError(t, theSeed.Client.Delete(context.WithoutCancel(t.Context()), pod, client.GracePeriodSeconds(0)))
	})
}

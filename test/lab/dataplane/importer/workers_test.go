// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package importer

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/behaviour"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/cluster"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/hypervisor"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/kubelet"
)

// scriptedVolumes records the imports, each of which ends when it is observed again.
type scriptedVolumes struct{ asked []string }

func (v *scriptedVolumes) CloneVolume(context.Context, string, string) error { return nil }

func (v *scriptedVolumes) DeleteVolume(string) error { return nil }

func (v *scriptedVolumes) Import(run hypervisor.ImporterRun) (hypervisor.ImporterResult, bool) {
	v.asked = append(v.asked, "import to "+run.Volume+" from "+run.Env[cdiImporterEndpoint])
	return hypervisor.ImporterResult{Message: importMessage}, len(v.asked) > 1
}

func TestImportOutcome(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		endpoint string
		want     kubelet.Outcome
	}{
		"HTTP":            {endpoint: "https://images.local/disk.qcow2", want: kubelet.Succeeded(importMessage)},
		"HTTPNotFound":    {endpoint: "https://images.local/404/disk.qcow2", want: kubelet.Failed(notFoundMessage)},
		"Registry":        {endpoint: "docker://registry.local/disk:1", want: kubelet.Succeeded(importMessage)},
		"RegistryMissing": {endpoint: "docker://registry.local/a/missing:1", want: kubelet.Failed(noManifestMessage)},
		"Blank":           {endpoint: "", want: kubelet.Succeeded(importMessage)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := importerPod()
			pod.Spec.Containers[0].Env[0].Value = tc.endpoint
			require.Equal(t, tc.want, importOutcome(pod))
		})
	}
}

func TestRealImport(t *testing.T) {
	t.Parallel()
	namespaces := cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)
	claims := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	require.NoError(t, claims.Add(&corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "target"},
		Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: "pv-1"},
	}))
	content := &scriptedVolumes{}
	w := &Workers{
		Provider:  &cluster.Provider{Claims: corelisters.NewPersistentVolumeClaimLister(claims)},
		Behaviour: behaviour.Reader{Namespaces: corelisters.NewNamespaceLister(namespaces)},
		Volumes:   content,
		Now:       time.Now,
	}
	pod := importerPod()
	require.False(t, w.importsForReal(pod), "imports are simulated by default")
	require.NoError(t, namespaces.Add(&corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: "ns", Annotations: map[string]string{hypervisor.ImportAnnotation: hypervisor.RealImport}},
	}))
	require.True(t, w.importsForReal(pod))
	require.False(t, w.Outcome(pod).Exited, "the importer has just been started")
	require.Equal(t, kubelet.Succeeded(importMessage), w.Outcome(pod))
	require.Equal(t, "import to pv-1 from http://127.0.0.1/image", content.asked[0])
}

// importerPod returns the pod with which CDI fills the claim "target".
func importerPod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "importer", UID: "uid", Labels: map[string]string{cdiComponentLabel: cdiImporter}},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{
				Name: cdiImporter,
				Env:  []corev1.EnvVar{{Name: cdiImporterEndpoint, Value: "http://127.0.0.1/image"}},
			}},
			Volumes: []corev1.Volume{{
				Name: cdiDataVolume,
				VolumeSource: corev1.VolumeSource{
					PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "target"},
				},
			}},
		},
	}
}

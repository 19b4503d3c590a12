// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package seed

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/process"
)

func withImage(image string) *appsv1.Deployment {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: "name"}}
	d.Spec.Template.Spec.Containers = []corev1.Container{{Image: image}}

	return d
}

// TestProgramFor requires the program of a Deployment to follow from its image, whatever its registry and version.
func TestProgramFor(t *testing.T) {
	t.Parallel()

	s := &Seed{programs: programs{extension: "/bin/gardener-extension-provider-kubevirt", admission: "/bin/gardener-extension-admission-kubevirt"}}

	program, found := s.programFor(withImage("registry.example.com:5000/a/gardener-extension-provider-kubevirt:v1"))
	require.True(t, found)
	require.Equal(t, s.programs.extension, program.path)

	program, found = s.programFor(withImage("gardener-extension-admission-kubevirt"))
	require.True(t, found)
	require.Equal(t, s.programs.admission, program.path)
	require.Equal(t, "garden", program.needed.Namespace)

	_, found = s.programFor(withImage("registry.example.com/machine-controller-manager:v1"))
	require.False(t, found)

	_, found = s.programFor(&appsv1.Deployment{})
	require.False(t, found)
}

// TestKubelet_DeletesItsPods requires a kubelet to delete the Pods of a chart's Deployment, and no others.
func TestKubelet_DeletesItsPods(t *testing.T) {
	t.Parallel()

	pod := func(name, program string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: name, Labels: map[string]string{"app": program}}}
	}
	cluster := fake.NewClientBuilder().WithObjects(pod("other-0", "other"), pod("deleted-0", "deleted")).Build()
	reports := 0
	k := (&Seed{Client: cluster, watched: cluster}).kubeletFor(withImage("a"))
	k.installed = func(string, ...any) { reports++ }
	require.NoError(t, k.sync(t.Context()), "the Deployment does not exist, and did not")
	require.Zero(t, reports)

	k.template.Labels = map[string]string{"app": "deleted"}
	require.NoError(t, k.sync(t.Context()), "the Deployment does not exist any more")
	require.NoError(t, k.sync(t.Context()))
	require.Equal(t, 1, reports)

	left := &corev1.PodList{}
	require.NoError(t, cluster.List(t.Context(), left))
	require.Len(t, left.Items, 1)
	require.Equal(t, "other-0", left.Items[0].Name)
}

// TestKubelet_UpdatesVolumes requires a program that runs to find a new token in its file.
func TestKubelet_UpdatesVolumes(t *testing.T) {
	t.Parallel()

	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: "token"}, Data: map[string][]byte{"token": []byte("old")}}
	deployment := withImage("extension")
	deployment.Spec.Template.Spec.Volumes = []corev1.Volume{{
		Name: "access",
		VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
			Sources: []corev1.VolumeProjection{{Secret: &corev1.SecretProjection{
				LocalObjectReference: corev1.LocalObjectReference{Name: "token"},
				Items:                []corev1.KeyToPath{{Key: "token", Path: "token"}},
			}}},
		}},
	}}

	cluster := fake.NewClientBuilder().WithObjects(secret, deployment).WithStatusSubresource(&appsv1.Deployment{}, &corev1.Pod{}).Build()
	group := process.NewGroup(t.TempDir())
	t.Cleanup(func() { require.NoError(t, group.Stop(context.WithoutCancel(t.Context()))) })

	program, err := group.Start(process.Spec{Name: "program", Path: "sleep", Args: []string{"600"}})
	require.NoError(t, err)

	k := (&Seed{Client: cluster, watched: cluster, Folder: t.TempDir()}).kubeletFor(deployment)
	k.running = []*process.Process{program}
	k.template = deployment.Spec.Template
	k.installed = t.Logf

	for _, token := range []string{"old", "new"} {
		secret.Data["token"] = []byte(token)
		require.NoError(t, cluster.Update(t.Context(), secret))
		require.NoError(t, k.sync(t.Context()))
		require.NoError(t, k.reportRunning(t.Context()))

		content, err := os.ReadFile(filepath.Join(k.folder, "access", "token"))
		require.NoError(t, err)
		require.Equal(t, token, string(content))
	}

	pod := &corev1.Pod{}
	require.NoError(t, cluster.Get(t.Context(), client.ObjectKey{Namespace: "garden", Name: "name-0"}, pod))
	require.True(t, pod.Status.ContainerStatuses[0].Ready)
}

package seed

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
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

// TestStopOthers requires the processes of unchanged Deployments to go on, and no others.
func TestStopOthers(t *testing.T) {
	t.Parallel()

	var reports int

	pod := func(name, program string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": program}}}
	}
	cluster := fake.NewClientBuilder().WithObjects(pod("unchanged-0", "unchanged"), pod("changed-0", "changed"), pod("deleted-0", "deleted")).Build()
	pods := &installedPods{seed: &Seed{Client: cluster, watched: cluster}, report: func(string, ...any) { reports++ }, running: map[client.ObjectKey]*installedPod{}}
	stopped := map[string]bool{}
	wanted := map[client.ObjectKey]*appsv1.Deployment{}

	for _, name := range []string{"unchanged", "changed", "deleted"} {
		template := withImage("a").Spec.Template
		template.Labels = map[string]string{"app": name}
		ended := make(chan struct{})
		pods.running[client.ObjectKey{Name: name}] = &installedPod{
			template: template, ended: ended, cancel: func() { stopped[name] = true; close(ended) },
		}
	}

	unchanged := withImage("a")
	unchanged.Spec.Template.Labels = map[string]string{"app": "unchanged"}
	wanted[client.ObjectKey{Name: "unchanged"}] = unchanged
	wanted[client.ObjectKey{Name: "changed"}] = withImage("b")

	require.NoError(t, pods.stopOthers(t.Context(), wanted))
	require.Equal(t, map[string]bool{"changed": true, "deleted": true}, stopped)
	require.Equal(t, 2, reports)
	require.Len(t, pods.running, 1)
	require.Contains(t, pods.running, client.ObjectKey{Name: "unchanged"})

	left := &corev1.PodList{}
	require.NoError(t, cluster.List(t.Context(), left))
	require.Len(t, left.Items, 1)
	require.Equal(t, "unchanged-0", left.Items[0].Name)
}

// TestSyncUpdatesVolumes requires a program that runs to find a new token in its file, and one broken Deployment not
// to keep the others from it.
func TestSyncUpdatesVolumes(t *testing.T) {
	t.Parallel()

	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: "token"}, Data: map[string][]byte{"token": []byte("old")}}
	volume := func(secret string) corev1.Volume {
		return corev1.Volume{Name: "access", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{
			Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: secret}, Items: []corev1.KeyToPath{{Key: "token", Path: "token"}}},
		}}}}}
	}

	valid, broken := withImage("extension"), withImage("extension")
	valid.Spec.Template.Spec.Volumes = []corev1.Volume{volume("token")}
	broken.Name = "broken"
	broken.Spec.Template.Spec.Volumes = []corev1.Volume{{Name: "host", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{}}}}

	cluster := fake.NewClientBuilder().WithObjects(secret, valid, broken).WithStatusSubresource(&appsv1.Deployment{}, &corev1.Pod{}).Build()
	pods := &installedPods{
		seed:    &Seed{Client: cluster, watched: cluster, Folder: t.TempDir(), programs: programs{extension: "/bin/extension", admission: "/bin/admission"}},
		running: map[client.ObjectKey]*installedPod{},
	}

	for _, d := range []*appsv1.Deployment{valid, broken} {
		pod := &installedPod{template: d.Spec.Template}
		pod.ready.Store(true)
		pods.running[client.ObjectKeyFromObject(d)] = pod
	}

	for _, token := range []string{"old", "new"} {
		secret.Data["token"] = []byte(token)
		require.NoError(t, cluster.Update(t.Context(), secret))

		require.ErrorContains(t, pods.sync(t.Context()), "volume host")

		content, err := os.ReadFile(filepath.Join(pods.seed.Folder, "pods", valid.Name, "access", "token"))
		require.NoError(t, err)
		require.Equal(t, token, string(content))
	}
}

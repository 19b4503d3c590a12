// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/process"
)

// TestShippedStandalone applies the Deployment for use without Gardener, and starts both of
// its containers with their arguments, including leader election. It then checks that the
// most demanding operations of an operator work with its permissions: Machine and MachineSet
// lose their owner references, as after a restore from a backup, and a Machine with a stuck
// drain is deleted by force.
func TestShippedStandalone(t *testing.T) {
	t.Parallel()

	s := harness.NewShoot(t)
	startStandalone(t, s, "standalone")
	s.ApplyCredentials(t)
	s.AddPool(t, s.Name, 1, s.Spec("zone-a", harness.EphemeralRoot))

	victim := slices.Collect(maps.Keys(s.AwaitRunning(t, 1)))[0]
	requireAdoption(t, s, victim)

	// Here the shoot's pods share the namespace with the controllers, and do
	// not meet its Pod Security.
	_, err := s.Target.CoreV1().Namespaces().Patch(t.Context(), s.Namespace, types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":null}}}`), metav1.PatchOptions{})
	require.NoError(t, err)

	app := harness.Application{Name: s.Name, Pool: s.Name, Replicas: 1}
	s.RunApplication(t, app)
	attachVolume(t, s, victim)

	patchMachine(t, s, victim, `{"metadata":{"labels":{"force-deletion":"True"}}}`)
	require.NoError(t, s.MCM.MachineV1alpha1().Machines(s.Namespace).Delete(t.Context(), victim, metav1.DeleteOptions{}))
	harness.Eventually(t, "the Machine is gone", func(ctx context.Context) (bool, error) {
		_, err := s.MCM.MachineV1alpha1().Machines(s.Namespace).Get(ctx, victim, metav1.GetOptions{})

		return apierrors.IsNotFound(err), nil
	})

	_, err = s.Target.StorageV1().VolumeAttachments().Get(t.Context(), victim, metav1.GetOptions{})
	require.True(t, apierrors.IsNotFound(err), "its volume is detached")

	s.StopApplication(t, app)
	s.AwaitEnd(t)
}

// TestShippedStandaloneWithSeparateTarget applies the other overlay, and starts its containers.
func TestShippedStandaloneWithSeparateTarget(t *testing.T) {
	t.Parallel()

	s := harness.NewShoot(t)

	kubeconfig, err := os.ReadFile(s.MCMKubeconfig)
	require.NoError(t, err)
	_, err = s.Target.CoreV1().Secrets(s.Namespace).Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "target-kubeconfig"},
		Data:       map[string][]byte{"kubeconfig": kubeconfig},
	}, metav1.CreateOptions{})
	require.NoError(t, err)

	startStandalone(t, s, "standalone-separate-target")
}

// startStandalone applies an overlay with kubectl, lets the API server validate its pod, and runs
// the pod's programs until the test ends, since there is no kubelet.
func startStandalone(t *testing.T, s *harness.Shoot, overlay string) {
	t.Helper()

	files := unpack(t, s)
	files.kubectl(t, harness.Lab().Control, "apply", "--server-side", "--force-conflicts", "--validate=strict", "-k", files.path(overlay))

	const name = "machine-controller-manager"

	deployment, err := s.Target.AppsV1().Deployments(s.Namespace).Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	requireAdmitted(t, s, deployment)

	containers := deployment.Spec.Template.Spec.Containers
	require.Len(t, containers, 2)

	manager, err := harness.Lab().StartMachineControllerManager(t.Context(), s.Shoot, shippedArgs(t, s, &containers[0], s.MCMKubeconfig)...)
	require.NoError(t, err)

	s.Controller, err = harness.Lab().StartSidecar(t.Context(), s.Shoot, harness.Sidecar(), shippedArgs(t, s, &containers[1], s.SidecarKubeconfig)...)
	require.NoError(t, err)
	t.Cleanup(func() {
		t.Logf("memory: %s %s, %s %s", containers[0].Name, memoryOf(manager), containers[1].Name, memoryOf(s.Controller))
		require.NoError(t, s.Controller.Stop(context.WithoutCancel(t.Context())))
		require.NoError(t, manager.Stop(context.WithoutCancel(t.Context())))
	})

	for i, p := range []*process.Process{manager, s.Controller} {
		requireProbed(t, &containers[i], p)
	}

	for _, lease := range []string{name, "machine-controller"} {
		harness.Eventually(t, lease+" leads", func(ctx context.Context) (bool, error) {
			_, err := s.Target.CoordinationV1().Leases(s.Namespace).Get(ctx, lease, metav1.GetOptions{})

			return err == nil, nil
		})
	}
}

// requireAdmitted validates a Deployment's pod with the API server under the Pod
// Security of its namespace.
func requireAdmitted(t *testing.T, s *harness.Shoot, deployment *appsv1.Deployment) {
	t.Helper()

	namespace, err := s.Target.CoreV1().Namespaces().Get(t.Context(), s.Namespace, metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, "restricted", namespace.Labels["pod-security.kubernetes.io/enforce"])

	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: deployment.Name}, Spec: deployment.Spec.Template.Spec}
	_, err = s.Target.CoreV1().Pods(s.Namespace).Create(t.Context(), pod, harness.DryRun)
	require.NoError(t, err)

	for _, c := range deployment.Spec.Template.Spec.Containers {
		require.True(t, *c.SecurityContext.ReadOnlyRootFilesystem, c.Name)
	}
}

// shippedArgs returns the arguments of a shipped container, with the pod's files replaced by the
// lab's, and without its port, which the lab chooses because all processes share one host.
func shippedArgs(t *testing.T, s *harness.Shoot, container *corev1.Container, kubeconfig string) []string {
	t.Helper()
	require.Equal(t, "metadata.namespace", container.Env[0].ValueFrom.FieldRef.FieldPath)

	args := append(harness.PatientElection(), "--leader-elect=true") // The default, but not in the lab.

	for _, arg := range container.Args {
		flag, value, _ := strings.Cut(arg, "=")
		switch flag {
		case "--port":
			require.Equal(t, fmt.Sprint(container.Ports[0].ContainerPort), value, container.Name)

			continue
		case "--control-kubeconfig":
			require.Equal(t, "inClusterConfig", value)

			value = kubeconfig
		case "--target-kubeconfig":
			folder := container.VolumeMounts[0].MountPath
			file := "kubeconfig"
			require.Equal(t, folder+"/"+file, value)

			value = kubeconfig
		}

		args = append(args, flag+"="+strings.ReplaceAll(value, "$("+container.Env[0].Name+")", s.Namespace))
	}

	return args
}

// requireProbed probes a process as the kubelet would probe its container.
func requireProbed(t *testing.T, container *corev1.Container, p *process.Process) {
	t.Helper()

	for _, probe := range []*corev1.Probe{container.ReadinessProbe, container.LivenessProbe} {
		if probe == nil {
			continue // Gardener's have no readiness probe.
		}

		if port := probe.HTTPGet.Port; port.StrVal != "" {
			require.Equal(t, container.Ports[0].Name, port.StrVal)
		} else {
			require.Equal(t, container.Ports[0].ContainerPort, port.IntVal)
		}

		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:"+harness.PortOf(p.PID())+probe.HTTPGet.Path, http.NoBody)
		require.NoError(t, err)
		resp, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusOK, resp.StatusCode)
	}
}

// memoryOf returns the memory usage of a process.
func memoryOf(p *process.Process) string {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID())) // For the test's log.
	_, after, _ := strings.Cut(string(status), "VmRSS:")
	size, _, _ := strings.Cut(after, "\n")

	return strings.TrimSpace(size)
}

// requireAdoption removes the owner references of a Machine and of its MachineSet, and waits
// until they are restored.
func requireAdoption(t *testing.T, s *harness.Shoot, machine string) {
	t.Helper()

	const orphaned = `{"metadata":{"ownerReferences":null}}`

	sets := s.MCM.MachineV1alpha1().MachineSets(s.Namespace)
	list, err := sets.List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Len(t, list.Items, 1)

	set := list.Items[0].Name
	patchMachine(t, s, machine, orphaned)
	_, err = sets.Patch(t.Context(), set, types.MergePatchType, []byte(orphaned), metav1.PatchOptions{})
	require.NoError(t, err)

	harness.Eventually(t, "both have owners again", func(ctx context.Context) (bool, error) {
		m, err := s.MCM.MachineV1alpha1().Machines(s.Namespace).Get(ctx, machine, metav1.GetOptions{})
		if err != nil {
			return false, err
		}

		owned, err := sets.Get(ctx, set, metav1.GetOptions{})

		return err == nil && metav1.GetControllerOf(m) != nil && metav1.GetControllerOf(owned) != nil, err
	})
}

func patchMachine(t *testing.T, s *harness.Shoot, name, patch string) {
	t.Helper()

	_, err := s.MCM.MachineV1alpha1().Machines(s.Namespace).Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	require.NoError(t, err)
}

// attachVolume adds an attached volume, with the machine's name, to the status of a machine's Node.
func attachVolume(t *testing.T, s *harness.Shoot, machine string) {
	t.Helper()

	_, err := s.Target.StorageV1().VolumeAttachments().Create(t.Context(), &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: machine},
		Spec: storagev1.VolumeAttachmentSpec{
			Attacher: "csi.kubevirt.io",
			NodeName: machine,
			Source:   storagev1.VolumeAttachmentSource{PersistentVolumeName: new("volume")},
		},
	}, metav1.CreateOptions{})
	require.NoError(t, err)

	attached := []byte(`{"status":{"volumesAttached":[{"name":"kubernetes.io/csi/csi.kubevirt.io^volume","devicePath":""}]}}`)
	_, err = s.Target.CoreV1().Nodes().Patch(t.Context(), machine, types.MergePatchType, attached, metav1.PatchOptions{}, "status")
	require.NoError(t, err)
}

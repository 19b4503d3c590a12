// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package shoot

import (
	"syscall"
	"testing"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

const noFinalizers = `{"metadata":{"finalizers":null}}`

// newSeed returns the shoot in another seed: with another namespace in the control cluster, and the
// same one in the provider cluster.
func (l *shootLife) newSeed(t *testing.T) *harness.Shoot {
	t.Helper()

	seed := harness.NewShoot(t)
	seed.ProviderNamespace = l.ProviderNamespace
	seed.ProviderKubeconfig = l.ProviderKubeconfig
	l.states.Observe(t, seed)

	return seed
}

// migrateTo migrates the control plane to another seed as Gardener does (gardenlet's flow, in
// pkg/gardenlet/controller/shoot/shoot/reconciler_migrate.go, and actuator_restore.go in
// extensions/pkg/controller/worker/genericactuator): machine-controller-manager's objects are
// restored there, with other UIDs, and shallowly deleted here. The old sidecar should have stopped
// before. It hangs until the Machines are gone, and then continues.
func (l *shootLife) migrateTo(t *testing.T, seed *harness.Shoot) {
	t.Helper()

	l.AwaitRunning(t, 4)
	require.NoError(t, l.pod.Manager.Stop(t.Context()))
	require.NoError(t, l.pod.Sidecar.Signal(syscall.SIGSTOP))
	t.Cleanup(func() { require.NoError(t, l.pod.Sidecar.Signal(syscall.SIGCONT)) })

	seed.ApplyCredentials(t)
	l.restoreTo(t, seed)
	l.letGo(t, "machines")

	looked := l.line.Asked("get virtualmachines")

	require.NoError(t, l.pod.Sidecar.Signal(syscall.SIGCONT))
	l.awaitOrphans(t, looked)
	l.letGo(t, "machinesets", "machinedeployments")
	l.letClassesGo(t)
	l.requireAwake(t)
}

// restoreTo restores the workers' objects. The state of one Machine was saved before
// its machine was created.
func (l *shootLife) restoreTo(t *testing.T, seed *harness.Shoot) {
	t.Helper()

	from := l.MCM.MachineV1alpha1()
	to := seed.MCM.MachineV1alpha1()
	all := metav1.ListOptions{}

	classes, err := from.MachineClasses(l.Namespace).List(t.Context(), all)
	require.NoError(t, err)

	for _, class := range classes.Items {
		class.ObjectMeta = restored(class.ObjectMeta)
		class.CredentialsSecretRef.Namespace = seed.Namespace
		class.SecretRef.Namespace = seed.Namespace
		_, err := to.MachineClasses(seed.Namespace).Create(t.Context(), &class, metav1.CreateOptions{})
		require.NoError(t, err)
	}

	deployments, err := from.MachineDeployments(l.Namespace).List(t.Context(), all)
	require.NoError(t, err)

	for _, deployment := range deployments.Items {
		deployment.ObjectMeta = restored(deployment.ObjectMeta)
		_, err := to.MachineDeployments(seed.Namespace).Create(t.Context(), &deployment, metav1.CreateOptions{})
		require.NoError(t, err)
	}

	sets, err := from.MachineSets(l.Namespace).List(t.Context(), all)
	require.NoError(t, err)

	for _, set := range sets.Items {
		set.ObjectMeta = restored(set.ObjectMeta)
		_, err := to.MachineSets(seed.Namespace).Create(t.Context(), &set, metav1.CreateOptions{})
		require.NoError(t, err)
	}

	machines, err := from.Machines(l.Namespace).List(t.Context(), all)
	require.NoError(t, err)

	for i, m := range machines.Items {
		m.ObjectMeta = restored(m.ObjectMeta)
		if i == 0 {
			m.Spec.ProviderID = ""
			delete(m.Labels, v1alpha1.NodeLabelKey)
		}

		_, err := to.Machines(seed.Namespace).Create(t.Context(), &m, metav1.CreateOptions{})
		require.NoError(t, err)
	}
}

// restored returns the part of an object's metadata that Gardener keeps
// (pkg/utils/gardener/shootstate/machines.go).
func restored(o metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: o.Name, Annotations: o.Annotations, Labels: o.Labels}
}

// letGo deletes objects that are restored elsewhere (ShallowDeleteMachineResources in
// pkg/gardenlet/operation/botanist/migration.go). It removes the finalizers first, so that no
// controller reacts.
func (l *shootLife) letGo(t *testing.T, resources ...string) {
	t.Helper()

	client, err := metadata.NewForConfig(harness.Lab().Control.Config())
	require.NoError(t, err)

	for _, resource := range resources {
		objects := client.Resource(v1alpha1.SchemeGroupVersion.WithResource(resource)).Namespace(l.Namespace)
		all, err := objects.List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)

		for i := range all.Items {
			name := all.Items[i].Name

			_, err := objects.Patch(t.Context(), name, types.MergePatchType, []byte(noFinalizers), metav1.PatchOptions{})
			require.NoError(t, err)
			require.NoError(t, objects.Delete(t.Context(), name, metav1.DeleteOptions{}))
		}

		left, err := objects.List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		require.Empty(t, left.Items)
	}
}

// letClassesGo removes the classes and their Secret, but not the credentials, while the old sidecar
// runs.
func (l *shootLife) letClassesGo(t *testing.T) {
	t.Helper()
	l.letGo(t, "machineclasses")

	secrets := l.Target.CoreV1().Secrets(l.Namespace)
	for _, name := range []string{"cloudprovider", "example-worker-userdata"} {
		_, err := secrets.Patch(t.Context(), name, types.MergePatchType, []byte(noFinalizers), metav1.PatchOptions{})
		require.NoError(t, err)
	}

	require.NoError(t, secrets.Delete(t.Context(), "example-worker-userdata", metav1.DeleteOptions{}))
}

// runOn requires that the machines keep running under their new Machines, while the old sidecar
// runs and after it has stopped.
func (l *shootLife) runOn(t *testing.T, seed *harness.Shoot) {
	t.Helper()

	seed.AwaitRunning(t, 4)
	l.pod.Terminate(t)
	l.requireAwake(t)
	require.Equal(t, l.images, l.AwaitOneImage(t), "running machines were cloned from it")
}

package integration

import (
	"context"
	"syscall"
	"testing"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// newSeed returns the shoot as another seed has it: with another namespace in the control cluster, and the same one in the provider
// cluster.
func (l *shootLife) newSeed(t *testing.T) *shoot {
	t.Helper()

	seed := newShoot(t)
	seed.ProviderNamespace, seed.ProviderKubeconfig = l.ProviderNamespace, l.quiet.ProviderKubeconfig

	return seed
}

// migrateTo does what Gardener does when a control plane goes to another seed
// (extensions/pkg/controller/worker/genericactuator/actuator_migrate.go and actuator_restore.go): what machine-controller-manager has
// stored is restored there, with other UIDs, and let go here. The sidecar here hangs meanwhile, and goes on when all is over.
func (l *shootLife) migrateTo(t *testing.T, seed *shoot) {
	t.Helper()

	l.awaitRunning(t, 4)
	require.NoError(t, l.pod.manager.Stop(t.Context()))
	require.NoError(t, l.pod.sidecar.Signal(syscall.SIGSTOP))
	t.Cleanup(func() { require.NoError(t, l.pod.sidecar.Signal(syscall.SIGCONT)) })

	seed.applyCredentials(t)
	l.restoreTo(t, seed)
	l.letGo(t)

	listed, seen := l.line.asked("list virtualmachines"), l.line.asked("get virtualmachines")

	require.NoError(t, l.pod.sidecar.Signal(syscall.SIGCONT))
	eventually(t, "the old sidecar took each machine for an orphan", func(context.Context) (bool, error) {
		return l.line.asked("list virtualmachines") > listed && l.line.asked("get virtualmachines") >= seen+4, nil
	})
	require.Equal(t, l.awake, l.identities(t))
}

// restoreTo creates what is stored of the workers. The state of one Machine was saved before its machine was created.
func (l *shootLife) restoreTo(t *testing.T, seed *shoot) {
	t.Helper()

	from, to := l.mcm.MachineV1alpha1(), seed.mcm.MachineV1alpha1()
	all := metav1.ListOptions{}

	classes, err := from.MachineClasses(l.Namespace).List(t.Context(), all)
	require.NoError(t, err)

	for _, class := range classes.Items {
		class.ObjectMeta = restored(class.ObjectMeta)
		class.CredentialsSecretRef.Namespace, class.SecretRef.Namespace = seed.Namespace, seed.Namespace
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

// restored is what Gardener keeps of an object's metadata (pkg/utils/gardener/shootstate/machines.go).
func restored(o metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: o.Name, Annotations: o.Annotations, Labels: o.Labels}
}

// letGo removes what is restored elsewhere. Nobody is to do anything about that: the finalizers go first.
func (l *shootLife) letGo(t *testing.T) {
	t.Helper()

	from, ctx := l.mcm.MachineV1alpha1(), t.Context()
	none, all := []byte(`{"metadata":{"finalizers":null}}`), metav1.ListOptions{}

	machines, err := from.Machines(l.Namespace).List(ctx, all)
	require.NoError(t, err)

	for _, m := range machines.Items {
		_, err := from.Machines(l.Namespace).Patch(ctx, m.Name, types.MergePatchType, none, metav1.PatchOptions{})
		require.NoError(t, err)
		require.NoError(t, from.Machines(l.Namespace).Delete(ctx, m.Name, metav1.DeleteOptions{}))

		_, err = from.Machines(l.Namespace).Get(ctx, m.Name, metav1.GetOptions{})
		require.True(t, apierrors.IsNotFound(err), "%v", err)
	}
}

// runOn requires the machines to run on under their new Machines, while the old sidecar is still there.
func (l *shootLife) runOn(t *testing.T, seed *shoot) {
	t.Helper()

	seed.awaitRunning(t, 4)
	require.Equal(t, l.awake, l.identities(t), "no machine is lost, and none doubled")
	l.pod.killSidecar(t)
}

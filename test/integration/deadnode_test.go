package integration

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/util/provider/driver"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/machinecodes/codes"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane"
)

// hostLabel is the node label selected by the machine of the failure table.
const hostLabel = "mortal.example.com/host"

// onMortal is overlaid on the spec of a machine that selects a mortal node with this label, with an
// optional fault. Its launcher pod has a grace period of half a minute.
func onMortal(label, value string, f dataplane.Fault) string {
	return fmt.Sprintf(`{"virtualMachineTemplate":{"spec":{"template":{"metadata":{"annotations":{%q:%q}},"spec":{
		"terminationGracePeriodSeconds":0,"nodeSelector":{%q:%q},%s}}}}}`, dataplane.FaultAnnotation, f, label, value, tolerating())
}

// deadNodeFailure is the row of a node that dies just when a machine is assigned to it. The
// launcher pod has no live kubelet.
func deadNodeFailure() failure {
	return failure{
		by: "dead node", spec: onMortal(hostLabel, "yes", ""), want: "NodeDown", code: codes.Unavailable,
		spoil: func(t *testing.T, s *shoot, m *machine) {
			t.Helper()
			s.awaitInstance(t, m, "it waits for a node", waitsForNode)
			s.kill(t, mortalOfTheTable, map[string]any{hostLabel: "yes"})
			s.awaitInstance(t, m, "it has its node", func(i *kubevirtv1.VirtualMachineInstance) bool {
				return !waitsForNode(i) && slices.Contains(hostsOf(i), mortalOfTheTable)
			})
		},
		heal: func(t *testing.T, s *shoot) { t.Helper(); s.revive(t, mortalOfTheTable) },
	}
}

// TestNodeDiesUnderAMachine uses the real controllers: the taint manager evicts a starting launcher
// pod, KubeVirt gives up the instance and waits for its pod, and DeleteMachine waits as well, until
// the remedy named in the errors is applied.
func TestNodeDiesUnderAMachine(t *testing.T) {
	t.Parallel()

	s, d := newShoot(t), newDriver(settings{grace: shortGrace, wait: 2 * time.Second, deleteWait: 3 * time.Second})
	m := s.newMachine("zone-a", importedRoot)
	m.class.ProviderSpec.Raw = layOver(t, m.class.ProviderSpec.Raw, onMortal(corev1.LabelHostname, mortalOfTheDeletion, dataplane.FaultImagePull))
	_, err := m.create(t.Context(), d)
	require.NoError(t, err)

	m.awaitToken(t, d, "ImagePullFailed", codes.FailedPrecondition)
	s.kill(t, mortalOfTheDeletion, nil)

	began := time.Now()
	text := m.awaitToken(t, d, "NodeDown", codes.Unavailable)
	t.Logf("after %.0f s: %s", time.Since(began).Seconds(), text)
	require.Contains(t, text, mortalOfTheDeletion)
	s.awaitInstance(t, m, "KubeVirt has given it up", func(i *kubevirtv1.VirtualMachineInstance) bool {
		return i.Status.Phase == kubevirtv1.Failed && i.DeletionTimestamp != nil
	})

	err = m.remove(t.Context(), d)
	require.Equal(t, codes.DeadlineExceeded, codeOf(err))
	require.ErrorContains(t, err, mortalOfTheDeletion)
	require.ErrorContains(t, err, corev1.TaintNodeOutOfService)
	t.Log(err)

	seen, _ := s.diagnoseMachine(t.Context(), t, m.name(), "--provider-kubeconfig="+s.ProviderKubeconfigFile, "--cluster="+s.Namespace)
	require.Equal(t, spi.StageDeleting, seen.Provider.Stage)
	require.Contains(t, fmt.Sprint(seen.WaitingFor, seen.Cause), corev1.TaintNodeOutOfService, "it says what blocks, too")

	s.setTaint(t, mortalOfTheDeletion, corev1.Taint{Key: corev1.TaintNodeOutOfService, Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute})
	eventually(t, "the machine is deleted, though its node is dead", func(ctx context.Context) (bool, error) {
		err := m.remove(ctx, d)

		return err == nil, nil
	})
	s.requireNothingLeft(t)
}

// awaitToken calls the driver as machine-controller-manager does until it reports a failure with
// this token, and returns its text.
func (m *machine) awaitToken(t *testing.T, d driver.Driver, token string, code codes.Code) string {
	t.Helper()

	var text string

	eventually(t, token+" is reported", func(ctx context.Context) (bool, error) {
		_, err := m.status(ctx, d)
		require.Equal(t, codes.Uninitialized, codeOf(err))

		_, err = m.initialize(ctx, d)
		if codeOf(err) != code {
			return false, nil
		}

		text = err.Error()
		require.Contains(t, text, "["+token+": ")

		return true, nil
	})

	return text
}

// kill stops the kubelet and virt-handler of a node until revive or the end of the test. It sets
// these labels on the node in the same patch.
func (s *shoot) kill(t *testing.T, node string, labels map[string]any) {
	t.Helper()

	all := map[string]any{dataplane.DownLabel: "true"}
	maps.Copy(all, labels)

	s.labelNode(t.Context(), t, node, all)
	t.Cleanup(func() {
		s.revive(t, node)
		s.setTaint(t, node)
	})
}

// revive restarts the components stopped by kill.
func (s *shoot) revive(t *testing.T, node string) {
	t.Helper()
	s.labelNode(context.WithoutCancel(t.Context()), t, node, map[string]any{dataplane.DownLabel: nil, hostLabel: nil})
}

func (s *shoot) labelNode(ctx context.Context, t *testing.T, node string, labels map[string]any) {
	t.Helper()

	patch := patchOf(t, map[string]any{"metadata": map[string]any{"labels": labels}})
	_, err := s.kube.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, patch, metav1.PatchOptions{})
	require.NoError(t, err)
}

// setTaint sets administrator taints on a mortal node, in addition to those of Kubernetes.
func (s *shoot) setTaint(t *testing.T, name string, taints ...corev1.Taint) {
	t.Helper()

	ctx, nodes := context.WithoutCancel(t.Context()), s.kube.CoreV1().Nodes()
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		node, err := nodes.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}

		kept := slices.DeleteFunc(node.Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == corev1.TaintNodeOutOfService })
		node.Spec.Taints = slices.Concat(kept, taints)
		_, err = nodes.Update(ctx, node, metav1.UpdateOptions{})

		return err
	})
	require.NoError(t, err)
}

func (s *shoot) awaitInstance(t *testing.T, m *machine, what string, is func(*kubevirtv1.VirtualMachineInstance) bool) {
	t.Helper()

	eventually(t, what, func(ctx context.Context) (bool, error) {
		list, err := s.kubevirt.KubevirtV1().VirtualMachineInstances(s.ProviderNamespace).List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + m.name()})
		if err != nil || len(list.Items) == 0 {
			return false, err
		}

		return is(&list.Items[0]), nil
	})
}

func waitsForNode(instance *kubevirtv1.VirtualMachineInstance) bool {
	return slices.ContainsFunc(instance.Status.Conditions, func(c kubevirtv1.VirtualMachineInstanceCondition) bool {
		return string(c.Type) == string(corev1.PodScheduled) && c.Status == corev1.ConditionFalse
	})
}

func hostsOf(instance *kubevirtv1.VirtualMachineInstance) []string {
	var hosts []string
	for _, host := range instance.Status.ActivePods {
		hosts = append(hosts, host)
	}

	return hosts
}

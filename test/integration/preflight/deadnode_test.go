// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package preflight

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
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/suite"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/behaviour"
)

// hostLabel is the node label selected by the machine of the failure table.
const hostLabel = "mortal.example.com/host"

// onMortal is overlaid on the spec of a machine that selects a mortal node with this label, with an
// optional fault. Its launcher pod has a grace period of half a minute.
func onMortal(label, value string, f behaviour.Fault) string {
	return fmt.Sprintf(`{"virtualMachineTemplate":{"spec":{"template":{"metadata":{"annotations":{%q:%q}},"spec":{
		"terminationGracePeriodSeconds":0,"nodeSelector":{%q:%q},%s}}}}}`, behaviour.FaultAnnotation, f, label, value, tolerateReserved())
}

// deadNodeFailure is the row of a node that dies just when a machine is assigned to it. The
// launcher pod has no live kubelet.
func deadNodeFailure() harness.Failure {
	return harness.Failure{
		By:   "dead node",
		Spec: onMortal(hostLabel, "yes", ""),
		Want: "NodeDown",
		Code: codes.Unavailable,
		Spoil: func(t *testing.T, s *harness.Shoot, m *harness.Machine) {
			t.Helper()
			awaitInstance(t, s, m, "it waits for a node", waitsForNode)
			killNode(t, s, suite.MortalNodeOfTheTable, map[string]any{hostLabel: "yes"})
			awaitInstance(t, s, m, "it has its node", func(i *kubevirtv1.VirtualMachineInstance) bool {
				return !waitsForNode(i) && slices.Contains(hostsOf(i), suite.MortalNodeOfTheTable)
			})
		},
		Heal: func(t *testing.T, s *harness.Shoot) { t.Helper(); reviveNode(t, s, suite.MortalNodeOfTheTable) },
	}
}

// TestNodeDiesUnderAMachine uses the real controllers: the taint manager evicts a starting launcher
// pod, KubeVirt gives up the instance and waits for its pod, and DeleteMachine waits as well, until
// the remedy named in the errors is applied.
func TestNodeDiesUnderAMachine(t *testing.T) {
	t.Parallel()

	s := harness.NewShoot(t)
	d := harness.NewDriver(harness.Settings{Grace: harness.ShortGrace, Wait: 2 * time.Second, DeleteWait: 3 * time.Second})
	m := s.NewMachine("zone-a", harness.ImportedRoot)
	m.Class.ProviderSpec.Raw = harness.MergeFields(t, m.Class.ProviderSpec.Raw, onMortal(corev1.LabelHostname, suite.MortalNodeOfTheDeletion, behaviour.FaultImagePull))
	_, err := m.Create(t.Context(), d)
	require.NoError(t, err)

	awaitToken(t, m, d, "ImagePullFailed", codes.FailedPrecondition)
	killNode(t, s, suite.MortalNodeOfTheDeletion, nil)

	began := time.Now()
	text := awaitToken(t, m, d, "NodeDown", codes.Unavailable)
	t.Logf("after %.0f s: %s", time.Since(began).Seconds(), text)
	require.Contains(t, text, suite.MortalNodeOfTheDeletion)
	awaitInstance(t, s, m, "KubeVirt has given it up", func(i *kubevirtv1.VirtualMachineInstance) bool {
		return i.Status.Phase == kubevirtv1.Failed && i.DeletionTimestamp != nil
	})

	err = m.Remove(t.Context(), d)
	require.Equal(t, codes.DeadlineExceeded, harness.CodeOf(err))
	require.ErrorContains(t, err, suite.MortalNodeOfTheDeletion)
	require.ErrorContains(t, err, corev1.TaintNodeOutOfService)
	t.Log(err)

	seen, _ := s.DiagnoseMachine(t.Context(), t, m.Name(), "--provider-kubeconfig="+s.ProviderKubeconfigFile, "--cluster="+s.Namespace)
	require.Equal(t, spi.StageDeleting, seen.Provider.Stage)
	require.Contains(t, fmt.Sprint(seen.WaitingFor, seen.Cause), corev1.TaintNodeOutOfService, "diagnose names the blocker too")

	setTaint(t, s, suite.MortalNodeOfTheDeletion, corev1.Taint{Key: corev1.TaintNodeOutOfService, Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute})
	harness.Eventually(t, "the machine is deleted, though its node is dead", func(ctx context.Context) (bool, error) {
		err := m.Remove(ctx, d)

		return err == nil, nil
	})
	s.RequireNothingLeft(t)
}

// awaitToken calls the driver as machine-controller-manager does until it reports a failure with
// this token, and returns its text.
func awaitToken(t *testing.T, m *harness.Machine, d driver.Driver, token string, code codes.Code) string {
	t.Helper()

	var text string

	harness.Eventually(t, token+" is reported", func(ctx context.Context) (bool, error) {
		_, err := m.Status(ctx, d)
		require.Equal(t, codes.Uninitialized, harness.CodeOf(err))

		_, err = m.Initialize(ctx, d)
		if harness.CodeOf(err) != code {
			return false, nil
		}

		text = err.Error()
		require.Contains(t, text, "["+token+": ")

		return true, nil
	})

	return text
}

// killNode stops the kubelet and virt-handler of a node until revive or the end of the test. It
// sets these labels on the node in the same patch.
func killNode(t *testing.T, s *harness.Shoot, node string, labels map[string]any) {
	t.Helper()

	all := map[string]any{behaviour.DownLabel: "true"}
	maps.Copy(all, labels)

	labelNode(t.Context(), t, s, node, all)
	t.Cleanup(func() {
		reviveNode(t, s, node)
		setTaint(t, s, node)
	})
}

// reviveNode restarts the components stopped by kill.
func reviveNode(t *testing.T, s *harness.Shoot, node string) {
	t.Helper()
	labelNode(context.WithoutCancel(t.Context()), t, s, node, map[string]any{behaviour.DownLabel: nil, hostLabel: nil})
}

func labelNode(ctx context.Context, t *testing.T, s *harness.Shoot, node string, labels map[string]any) {
	t.Helper()

	patch := harness.MarshalPatch(t, map[string]any{"metadata": map[string]any{"labels": labels}})
	_, err := s.Kube.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, patch, metav1.PatchOptions{})
	require.NoError(t, err)
}

// setTaint sets administrator taints on a mortal node, in addition to those of Kubernetes.
func setTaint(t *testing.T, s *harness.Shoot, name string, taints ...corev1.Taint) {
	t.Helper()

	ctx := context.WithoutCancel(t.Context())
	nodes := s.Kube.CoreV1().Nodes()
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

func awaitInstance(t *testing.T, s *harness.Shoot, m *harness.Machine, what string, is func(*kubevirtv1.VirtualMachineInstance) bool) {
	t.Helper()

	harness.Eventually(t, what, func(ctx context.Context) (bool, error) {
		list, err := s.KubeVirt.KubevirtV1().VirtualMachineInstances(s.ProviderNamespace).List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + m.Name()})
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

// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package evacuation

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"

	manifests "github.com/gardener/machine-controller-manager-provider-kubevirt/kubernetes"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

// TestDrainWithoutControlPlane drains the host of a machine while machine-controller-manager and the driver of its shoot do not
// run. KubeVirt refuses the eviction, the guest keeps running, and the alert of the provider cluster names the shoot. Then the
// drain ends as the alert says: the control plane is back, or the admin shuts the guest down.
func TestDrainWithoutControlPlane(t *testing.T) {
	t.Parallel()

	for name, tc := range map[string]struct {
		// during is done while the control plane does not run.
		during func(*abandoned, *testing.T)
		// after ends the wait.
		after func(*abandoned, *testing.T)
		// machines is their number after the drain, if a control plane runs.
		machines int
	}{
		"Dead":       {after: (*abandoned).shutDown},
		"Moved":      {after: (*abandoned).restore, machines: 1},
		"Hibernated": {during: (*abandoned).hibernate, after: (*abandoned).restore},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			a := newAbandoned(t)
			if tc.during != nil {
				tc.during(a, t)
			}

			before := a.instance(t)
			require.Equal(t, kubevirtv1.EvictionStrategyExternal, *before.Spec.EvictionStrategy)
			require.Empty(t, a.alert(t), "the node is not cordoned")

			drain := startDrain(t.Context(), t, a.Shoot, a.host, harness.NewTimeline())
			a.awaitMark(t)
			evict(t, a.Shoot, a.machine)
			a.requireAlert(t)

			after := a.instance(t)
			require.Equal(t, before.UID, after.UID)
			require.Equal(t, kubevirtv1.Running, after.Status.Phase, "nothing shuts the guest down")

			tc.after(a, t)
			drain.wait(t)
			a.requireEnd(t, before, tc.machines)
		})
	}
}

// abandoned is a shoot with one machine whose control plane has ended.
type abandoned struct {
	*harness.Shoot

	host, machine string
}

func newAbandoned(t *testing.T) *abandoned {
	t.Helper()

	s := harness.NewShoot(t)
	_, err := harness.Lab().AllowEvacuation(t.Context(), s.Shoot)
	require.NoError(t, err)

	z := addZone(t, 2)
	controllers := s.StartControllers(t, evacuationArgs...)
	s.ApplyCredentials(t)
	s.AddPool(t, s.Name, 1, s.Spec(z.name, harness.EphemeralRoot))

	a := &abandoned{Shoot: s}
	for name := range s.AwaitRunning(t, 1) {
		a.machine = name
	}

	a.host = a.instance(t).Status.NodeName
	controllers.Terminate(t)

	return a
}

// hibernate scales the pool to none, as Gardener does. The machine is left.
func (a *abandoned) hibernate(t *testing.T) {
	t.Helper()

	_, err := a.MCM.MachineV1alpha1().MachineDeployments(a.Namespace).Patch(
		t.Context(), a.Name, types.MergePatchType, []byte(`{"spec":{"replicas":0}}`), metav1.PatchOptions{})
	require.NoError(t, err)
}

// restore runs the control plane again, as on another seed, or to complete the hibernation.
func (a *abandoned) restore(t *testing.T) {
	t.Helper()
	a.StartControllers(t, evacuationArgs...)
}

// shutDown does what the alert says.
func (a *abandoned) shutDown(t *testing.T) {
	t.Helper()
	kubectl(t, "delete", "vmi", a.machine, "--namespace="+a.ProviderNamespace, "--wait=false")
}

func (a *abandoned) instance(t *testing.T) *kubevirtv1.VirtualMachineInstance {
	t.Helper()

	instance, err := a.KubeVirt.KubevirtV1().VirtualMachineInstances(a.ProviderNamespace).Get(t.Context(), a.machine, metav1.GetOptions{})
	require.NoError(t, err)

	return instance
}

// awaitMark waits until KubeVirt has refused the first eviction of the drain.
func (a *abandoned) awaitMark(t *testing.T) {
	t.Helper()
	harness.Eventually(t, a.machine+" is marked for evacuation", func(ctx context.Context) (bool, error) {
		instance, err := a.KubeVirt.KubevirtV1().VirtualMachineInstances(a.ProviderNamespace).Get(ctx, a.machine, metav1.GetOptions{})

		return err == nil && instance.Status.EvacuationNodeName == a.host, err
	})
}

// requireAlert requires that the alert for the admin fires, names the shoot, and has the remedy of shutDown.
func (a *abandoned) requireAlert(t *testing.T) {
	t.Helper()

	alert := a.alert(t)
	require.Len(t, alert, 1)
	require.Contains(t, alert[0], a.machine+" in namespace "+a.ProviderNamespace+" has been on the cordoned node "+a.host)
	require.Contains(t, alert[0], "Ask the operator of the Gardener Shoot with the technical ID "+a.Namespace)
	require.Contains(t, alert[0], "kubectl delete vmi "+a.machine+" -n "+a.ProviderNamespace)
}

// alert returns the descriptions of the shipped alert after three hours in which nothing changes, on what KubeVirt and
// kube-state-metrics report of the objects in the provider cluster.
func (a *abandoned) alert(t *testing.T) []string {
	t.Helper()

	vm := a.VM(t, a.machine)
	instance := a.instance(t)

	node, err := a.Kube.CoreV1().Nodes().Get(t.Context(), instance.Status.NodeName, metav1.GetOptions{})
	require.NoError(t, err)

	cordoned := 0
	if node.Spec.Unschedulable {
		cordoned = 1
	}

	cases, err := json.Marshal([]map[string]any{{
		"alert": "KubeVirtDrainWaits",
		"at":    "185m",
		"series": map[string]string{
			fmt.Sprintf("kubevirt_vmi_info{node=%q,namespace=%q,name=%q,phase=%q}",
				node.Name, instance.Namespace, instance.Name, strings.ToLower(string(instance.Status.Phase))): "1x240",
			fmt.Sprintf("kubevirt_vm_labels{namespace=%q,name=%q,label_mcm_gardener_cloud_cluster=%q}",
				vm.Namespace, vm.Name, vm.Labels["mcm.gardener.cloud/cluster"]): "1x240",
			fmt.Sprintf("kube_node_spec_unschedulable{node=%q}", node.Name): fmt.Sprintf("%dx240", cordoned),
		},
	}})
	require.NoError(t, err)

	file := filepath.Join(t.TempDir(), "cases.yaml")
	require.NoError(t, os.WriteFile(file, cases, 0o600))

	shipped, err := manifests.Manifests.ReadFile("monitoring/provider-cluster/prometheusrule.yaml")
	require.NoError(t, err)

	return harness.FiringAlerts(t, shipped, file)[0]
}

// requireEnd requires that the guest has left the drained host, and, if a control plane runs, that it has the given number of
// other machines. A guest that the admin shut down starts again on another host.
func (a *abandoned) requireEnd(t *testing.T, before *kubevirtv1.VirtualMachineInstance, machines int) {
	t.Helper()
	harness.Eventually(t, a.machine+" has left its host", func(ctx context.Context) (bool, error) {
		instance, err := a.KubeVirt.KubevirtV1().VirtualMachineInstances(a.ProviderNamespace).Get(ctx, a.machine, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return true, nil
		}

		return err == nil && instance.UID != before.UID && instance.Status.NodeName != a.host, err
	})

	if machines > 0 {
		require.NotContains(t, a.AwaitRunning(t, machines), a.machine)
	}

	kubectl(t, "uncordon", a.host)
}

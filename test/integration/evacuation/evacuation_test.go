// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package evacuation

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	rbacclient "k8s.io/client-go/kubernetes/typed/rbac/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/evacuation"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

// unreached are limits that are never reached within a test.
var unreached = evacuation.Limits{MaxPerDeployment: 1, Deadline: time.Hour, MigrationTimeout: time.Hour}

// TestSoakEvacuationTakesOneAtATime evicts all machines of a pool at once, as an
// update of KubeVirt does.
func TestSoakEvacuationTakesOneAtATime(t *testing.T) {
	t.Parallel()

	e := newEvacuees(t, unreached)
	left := e.add(t, 3)

	for _, m := range left {
		evict(t, e.Shoot, m.Name())
	}

	for len(left) > 0 {
		var next *harness.Machine

		harness.Eventually(t, "a Machine is deleted", func(ctx context.Context) (bool, error) {
			for i, m := range left {
				deleted, err := e.isDeleted(ctx, m)
				if err != nil || deleted {
					next, left = m, append(left[:i:i], left[i+1:]...)

					return deleted, err
				}
			}

			return false, nil
		})
		e.told.await(t, next, "EvacuationReplacing", "cannot be live-migrated")

		for _, other := range left {
			e.told.await(t, other, "EvacuationWaiting", "already has 1 Machine(s) being deleted or migrated")
			e.requireKept(t, other)
		}

		e.finish(t, next)
		e.told.await(t, next, "EvacuationEnded", "replaced")
	}
}

// TestEvacuationSparesUnhealthyPools evicts a machine while another one of its pool does not run,
// and then cancels the eviction.
func TestEvacuationSparesUnhealthyPools(t *testing.T) {
	t.Parallel()

	e := newEvacuees(t, unreached)
	machines := e.add(t, 2)
	ill := machines[0]
	well := machines[1]

	e.setPhase(t, ill, v1alpha1.MachineUnknown)
	evict(t, e.Shoot, well.Name())
	e.told.await(t, well, "EvacuationWaiting", "0 of 1 other Machines of MachineSet pool are Running")
	e.requireKept(t, well)

	cancelEviction(t, e.Shoot, well.Name())
	e.told.await(t, well, "EvacuationEnded", "cancelled")

	e.setPhase(t, ill, v1alpha1.MachineRunning)
	evict(t, e.Shoot, ill.Name())
	e.awaitDeleted(t, ill)
	e.requireKept(t, well)
}

// TestEvacuationLeavesMachinesAlone evicts machines that are busy with another operation.
func TestEvacuationLeavesMachinesAlone(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		reason  string
		prepare func(*testing.T, *evacuees, *harness.Machine)
		why     string
	}{
		"Preserved": {
			reason: "a preserved machine is kept for inspection",
			prepare: func(t *testing.T, e *evacuees, m *harness.Machine) {
				t.Helper()

				m.Machine.Annotations = map[string]string{"node.machine.sapcloud.io/preserve": "now"}
				_, err := e.MCM.MachineV1alpha1().Machines(e.Namespace).Update(t.Context(), m.Machine, metav1.UpdateOptions{})
				require.NoError(t, err)
			},
			why: "it is preserved",
		},
		"InPlaceUpdate": {
			reason: "an update in place would be lost",
			prepare: func(t *testing.T, e *evacuees, m *harness.Machine) {
				t.Helper()
				e.setPhase(t, m, v1alpha1.MachineInPlaceUpdating)
			},
			why: "it is being updated in place",
		},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			e := newEvacuees(t, unreached)
			m := e.add(t, 1)[0]
			tc.prepare(t, e, m)
			evict(t, e.Shoot, m.Name())
			e.told.await(t, m, "EvacuationWaiting", tc.why)
			e.requireKept(t, m)
		})
	}
}

// TestEvacuationSkipsOrphans evicts a machine without a Machine.
func TestEvacuationSkipsOrphans(t *testing.T) {
	t.Parallel()

	e := newEvacuees(t, unreached)
	machines := e.add(t, 2)
	orphan := machines[0]
	other := machines[1]

	require.NoError(t, e.MCM.MachineV1alpha1().Machines(e.Namespace).DeleteCollection(t.Context(), metav1.DeleteOptions{},
		metav1.ListOptions{FieldSelector: "metadata.name=" + orphan.Name()}))
	e.unfinalize(t, orphan)
	e.scaleSet(t, 1)

	evict(t, e.Shoot, orphan.Name())
	evict(t, e.Shoot, other.Name())
	e.awaitDeleted(t, other)
	require.Equal(t, orphan.Name(), e.VM(t, orphan.Name()).Name)
	require.Nil(t, e.VM(t, orphan.Name()).DeletionTimestamp)
}

// TestEvacuationDeadline checks that evictions by the provider cluster's
// administrator succeed after the deadline: first for an unhealthy pool, and then
// during a deletion that does not complete.
func TestEvacuationDeadline(t *testing.T) {
	t.Parallel()

	// Shorter, a starved evacuator might see the eviction only after the deadline.
	e := newEvacuees(t, evacuation.Limits{MaxPerDeployment: 1, Deadline: 40 * time.Second, MigrationTimeout: time.Hour})
	machines := e.add(t, 2)
	ill := machines[0]
	well := machines[1]

	e.setPhase(t, ill, v1alpha1.MachineUnknown)
	evict(t, e.Shoot, well.Name())
	e.told.await(t, well, "EvacuationWaiting", "other Machines of MachineSet pool are Running")
	e.told.await(t, well, "EvacuationReplacing", "it has waited longer than 40s")
	e.awaitDeleted(t, well)

	e.told.await(t, well, "EvacuationDeadline", "its deletion has taken longer than 40s")
	harness.Eventually(t, "the machine is powered off", func(ctx context.Context) (bool, error) {
		_, err := e.KubeVirt.KubevirtV1().VirtualMachineInstances(e.ProviderNamespace).Get(ctx, well.Name(), metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return true, nil
		}

		return false, err
	})
	e.told.await(t, well, "EvacuationEnded", "powered-off")
	e.requireKept(t, ill)
}

// TestEvacuationWithoutRights removes the permissions that evacuation needs in one of the
// clusters, and restores them.
func TestEvacuationWithoutRights(t *testing.T) {
	t.Parallel()

	t.Run("Control", func(t *testing.T) {
		t.Parallel()

		e := newEvacuees(t, unreached)
		e.ExpectDenials("evacuation temporarily has no permissions")

		m := e.add(t, 1)[0]
		giveBack := takeRights(t, e.Target.RbacV1().RoleBindings(e.Namespace), "machine-controller-evacuation")
		right := harness.Right{
			Cluster:   e.Target,
			Namespace: e.Namespace,
			Account:   "evacuation",
			Verb:      "delete",
			Group:     "machine.sapcloud.io",
			Resource:  "machines",
		}
		right.Await(t, false)

		evict(t, e.Shoot, m.Name())
		e.awaitMark(t, m)
		giveBack()
		e.awaitDeleted(t, m)
	})

	t.Run("Provider", func(t *testing.T) {
		t.Parallel()

		e := newEvacuees(t, unreached)
		e.ExpectDenials("evacuation temporarily has no permissions")

		giveBack := takeRights(t, e.Kube.RbacV1().RoleBindings(e.ProviderNamespace), "machine-controller-evacuation")
		e.DriverRight("create", "kubevirt.io", "virtualmachineinstancemigrations").Await(t, false)

		m := e.add(t, 1)[0]

		evict(t, e.Shoot, m.Name())
		e.awaitMark(t, m)
		require.Equal(t, "[]", e.told.String(), "without permissions, the controller sees no machine")
		giveBack()
		e.awaitDeleted(t, m)
	})
}

// takeRights deletes a RoleBinding. It returns a function that recreates it.
func takeRights(t *testing.T, bindings rbacclient.RoleBindingInterface, name string) func() {
	t.Helper()

	binding, err := bindings.Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	require.NoError(t, bindings.Delete(t.Context(), name, metav1.DeleteOptions{}))

	return func() {
		again := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, Subjects: binding.Subjects, RoleRef: binding.RoleRef}
		_, err := bindings.Create(t.Context(), again, metav1.CreateOptions{})
		require.NoError(t, err)
	}
}

// recordsMarks reports whether each KubeVirt records when it has marked an instance for evacuation
// (condition EvictionRequested, pkg/virt-controller/watch/vmi/lifecycle.go).
var recordsMarks = harness.PerKubeVirt[bool]{"1.6": false, "1.7": true, "1.8": true, "1.9": true}

// awaitMark waits until KubeVirt marks a machine for evacuation.
func (e *evacuees) awaitMark(t *testing.T, m *harness.Machine) {
	t.Helper()
	harness.Eventually(t, m.Name()+" is marked for evacuation", func(ctx context.Context) (bool, error) {
		instance, err := e.KubeVirt.KubevirtV1().VirtualMachineInstances(e.ProviderNamespace).Get(ctx, m.Name(), metav1.GetOptions{})
		if err != nil {
			return false, err
		}

		recorded := slices.ContainsFunc(instance.Status.Conditions, func(c kubevirtv1.VirtualMachineInstanceCondition) bool {
			return c.Type == kubevirtv1.VirtualMachineInstanceEvictionRequested
		})

		return instance.Status.EvacuationNodeName != "" && recorded == recordsMarks.Get(t), nil
	})
}

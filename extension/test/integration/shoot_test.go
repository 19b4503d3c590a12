// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	providerspec "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/test/seed"
)

// newShoot returns the shoot of seed.PlainShoot, after changes. Its machines have a namespace of their own.
func newShoot(t *testing.T, changes ...func(*gardencorev1beta1.Shoot)) *seed.Botanist {
	t.Helper()

	object := &gardencorev1beta1.Shoot{}
	require.NoError(t, theSeed.Read(seed.PlainShoot, object))

	for _, change := range changes {
		change(object)
	}

	return newShootWith(t, seed.AccountIn(object.Name), object)
}

// newShootWith returns a shoot with an account.
func newShootWith(t *testing.T, account seed.Account, object *gardencorev1beta1.Shoot) *seed.Botanist {
	t.Helper()

	profile := &gardencorev1beta1.CloudProfile{}
	require.NoError(t, theSeed.Read(seed.ExampleCloudProfile, profile))

	shoot, err := theSeed.NewBotanist(t.Context(), object, profile, account)
	require.NoError(t, err)

	return shoot
}

// named returns a change of the Shoot's name.
func named(name string) func(*gardencorev1beta1.Shoot) {
	return func(s *gardencorev1beta1.Shoot) {
		s.Name = name
	}
}

// pool returns the worker pool of that index.
func pool(s *seed.Botanist, i int) *gardencorev1beta1.Worker {
	return &s.Object.Spec.Provider.Workers[i]
}

// of selects the objects of a shoot in the provider cluster.
func of(s *seed.Botanist) []client.ListOption {
	return []client.ListOption{client.InNamespace(s.ProviderNamespace), client.MatchingLabels{providerspec.TagCluster: s.Namespace}}
}

// machines returns the UIDs of the virtual machines by their names.
func machines(t *testing.T, s *seed.Botanist) map[string]types.UID {
	t.Helper()

	list := &kubevirtv1.VirtualMachineList{}
	require.NoError(t, theSeed.Provider.List(t.Context(), list, of(s)...))

	uids := map[string]types.UID{}

	for _, vm := range list.Items {
		if vm.DeletionTimestamp == nil {
			uids[vm.Name] = vm.UID
		}
	}

	return uids
}

// onlyMachine returns the virtual machine of a shoot with one machine.
func onlyMachine(t *testing.T, s *seed.Botanist) *kubevirtv1.VirtualMachine {
	t.Helper()

	list := &kubevirtv1.VirtualMachineList{}
	require.NoError(t, theSeed.Provider.List(t.Context(), list, of(s)...))
	require.Len(t, list.Items, 1)

	return &list.Items[0]
}

// requireReadyNodes waits until as many Nodes of the shoot are Ready as it has virtual machines.
func requireReadyNodes(t *testing.T, s *seed.Botanist, count int) {
	t.Helper()
	eventually(t, func(ctx context.Context) (bool, string) {
		vms := &kubevirtv1.VirtualMachineList{}
		if err := theSeed.Provider.List(ctx, vms, of(s)...); err != nil {
			return false, err.Error()
		}

		ready := 0

		for _, vm := range vms.Items {
			node := &corev1.Node{}
			if theSeed.Target.Get(ctx, client.ObjectKey{Name: vm.Name}, node) == nil && isReady(node) {
				ready++
			}
		}

		return len(vms.Items) == count && ready == count, summary(vms, ready)
	})
}

func summary(vms *kubevirtv1.VirtualMachineList, ready int) string {
	names := []string{}
	for _, vm := range vms.Items {
		names = append(names, vm.Name+" "+string(vm.Status.PrintableStatus))
	}

	text, _ := json.Marshal(map[string]any{"machines": names, "readyNodes": ready}) //nolint:errchkjson // strings and numbers

	return string(text)
}

func isReady(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// eventually waits until a check holds. The check also describes what it saw.
func eventually(t *testing.T, check func(context.Context) (bool, string)) {
	t.Helper()

	const every, atMost = 500 * time.Millisecond, 10 * time.Minute

	seen := ""
	err := wait.PollUntilContextTimeout(t.Context(), every, atMost, true, func(ctx context.Context) (bool, error) {
		done, now := check(ctx)
		if ctx.Err() == nil {
			seen = now
		}

		return done, nil
	})
	require.NoError(t, err, seen)
}

// classes returns the names of the shoot's MachineClasses.
func classes(t *testing.T, s *seed.Botanist) []string {
	t.Helper()

	list := &machinev1alpha1.MachineClassList{}
	require.NoError(t, theSeed.Client.List(t.Context(), list, client.InNamespace(s.Namespace)))

	names := []string{}
	for _, class := range list.Items {
		names = append(names, class.Name)
	}

	slices.Sort(names)

	return names
}

// requireNothingLeft deletes the shoot in Gardener's order and requires that neither the seed nor the
// provider cluster has objects of it.
func requireNothingLeft(t *testing.T, s *seed.Botanist) {
	t.Helper()
	require.NoError(t, s.Delete(t.Context()))

	eventually(t, func(ctx context.Context) (bool, string) {
		left, err := s.Leftovers(ctx)
		if err != nil {
			return false, err.Error()
		}

		return len(left) == 0, strings.Join(left, ", ")
	})
}

// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package crash

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/util/provider/machinecodes/codes"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/render"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

// scenario takes a machine from its creation to its deletion. Each has calls that no other scenario
// makes.
type scenario struct {
	name string
	run  func(*testing.T, *harness.Shoot, *faultInjector)
}

// scenarios returns all scenarios. Those with the longest waits come first.
func scenarios() []scenario {
	return []scenario{
		{"volumes not made", runWithoutVolumes},
		{"no room", runWithoutRoom},
		{"image failed", runWithImageFailed},
		{"image lost", runWithImageLost},
		{"class deleted", runWithClassDeleted},
		{"healthy", runHealthy},
		{"left-overs", runWithLeftOvers},
		{"instance left", runWithInstanceLeft},
		{"deletion blocked", runBlocked},
		{"orphan", runAsOrphan},
	}
}

// impatient makes the driver report failures, and end its waits, after a second.
var impatient = harness.Settings{Grace: time.Second, Wait: time.Second}

// whileImporting are the failures that an impatient process may report while an image is replaced:
// the clone's source is missing, if a fault hides that the source is the image; the importer starts
// slowly, or CDI creates it again after an error; the last image has failed, which CDI reports
// before the reason.
var whileImporting = []string{"CloneSourceNotFound", "Unschedulable", "ImportFailed", "ImageCorrupt", "DataVolumeFailed"}

// runHealthy is disturbed only by the faults.
func runHealthy(t *testing.T, s *harness.Shoot, injector *faultInjector) {
	t.Helper()

	r := newReplay(t, withKeys(t, s.NewMachine("zone-a", harness.ImportedRoot), "ssh-ed25519 AAAA one"), injector, harness.Settings{Grace: time.Minute})

	r.create(t)
	r.requireWhole(t, s)
	require.True(t, injector.hasHit("CreateMachine: create secrets, no. 2"))
	require.Equal(t, map[string]string{"kubevirt://" + r.machine.Name(): r.machine.Name()}, r.list(t))
	r.remove(t)
	s.RequireNothingLeft(t)
}

// runWithLeftOvers begins after an earlier process has died: its golden image exists, and its
// Secrets contain other data. Later, the response to the creation of the VirtualMachine is lost, so
// that the driver finds its own VirtualMachine. runHealthy has the faults of that creation.
func runWithLeftOvers(t *testing.T, s *harness.Shoot, injector *faultInjector) {
	t.Helper()

	const creation = "create virtualmachines"

	injector.spares = "CreateMachine: " + creation
	m := withKeys(t, s.NewMachine("zone-a", harness.ImportedRoot), "ssh-ed25519 AAAA one")
	r := newReplay(t, m, injector, harness.Settings{Grace: time.Minute, Wrap: loseAnswer(creation)})

	earlier := *m
	earlier.Class = m.Class.DeepCopy()
	withKeys(t, &earlier, "ssh-ed25519 AAAA other")

	// The driver updates both Secrets at the same time: a fault in the one update does not keep the other from being made,
	// so that each pass needs left-overs.
	leave := func() {
		_, err := earlier.Create(t.Context(), harness.NewDriver(harness.Settings{Grace: time.Minute, Wrap: refuse(creation)}))
		require.Equal(t, codes.Aborted, harness.CodeOf(err))
	}

	// machine-controller-manager creates a machine again if it does not yet see the result of the
	// last creation.
	passUntil(t, "CreateMachine has found its own Secrets and VirtualMachine", func(t *testing.T) bool {
		t.Helper()
		leave()
		r.createPass(t)

		return injector.hasHit("CreateMachine: get datavolumes", "CreateMachine: get secrets, no. 2", "CreateMachine: update secrets, no. 2",
			"CreateMachine: get virtualmachines")
	})
	r.create(t)
	r.requireWhole(t, s)
	require.Equal(t, "ssh-ed25519 AAAA one", secretData(t, s, render.SSHKeysSecretName(r.machine.Name()))["key0"])
	r.remove(t)
	s.RequireNothingLeft(t)
}

// runWithoutVolumes lets the image that is the source of the machine's disk fail, and then
// replaces it.
func runWithoutVolumes(t *testing.T, s *harness.Shoot, injector *faultInjector) {
	t.Helper()

	harness.CreateBrokenImage(t, s)

	image := []string{"DataVolume image", "PersistentVolumeClaim image"}
	r := newReplay(t, s.NewMachine("zone-a", harness.CloneRoot), injector, impatient)
	r.passing = whileImporting

	r.until(t, report{"ImageNotFound", "404"}, []string{
		"InitializeMachine: list datavolumes", "InitializeMachine: get datavolumes", "InitializeMachine: list events by involvedObject.name",
		"InitializeMachine: watch virtualmachines",
	}, func(t *testing.T) { t.Helper(); require.False(t, r.creationPass(t)) })

	replaceImage(t, s)
	r.create(t)
	r.requireWhole(t, s, image...)
	r.remove(t)
	s.RequireNothingLeft(t, image...)
}

// runWithoutRoom has no suitable host for the machine at first.
func runWithoutRoom(t *testing.T, s *harness.Shoot, injector *faultInjector) {
	t.Helper()

	room := "room.example.com/" + s.Name
	m := s.NewMachine("zone-a", harness.EphemeralRoot)
	m.Class.ProviderSpec.Raw = harness.MergeFields(t, m.Class.ProviderSpec.Raw,
		fmt.Sprintf(`{"virtualMachineTemplate":{"spec":{"template":{"spec":{"nodeSelector":{%q:"yes"}}}}}}`, room))

	r := newReplay(t, m, injector, impatient)

	r.until(t, report{"Unschedulable", "0/"}, []string{
		"InitializeMachine: list pods", "InitializeMachine: list events by involvedObject.uid", "InitializeMachine: watch virtualmachineinstances",
	}, func(t *testing.T) { t.Helper(); require.False(t, r.creationPass(t)) })

	s.MakeRoom(t, room)
	r.create(t)
	r.requireWhole(t, s)
	r.remove(t)
	s.RequireNothingLeft(t)
}

// runWithInstanceLeft deletes the VirtualMachine without its instance, whose deletion is then
// blocked for a while.
func runWithInstanceLeft(t *testing.T, s *harness.Shoot, injector *faultInjector) {
	t.Helper()

	r := newReplay(t, s.NewMachine("zone-a", harness.EphemeralRoot), injector, harness.Settings{Grace: time.Minute, DeleteWait: time.Second})
	healthy := harness.NewDriver(harness.Settings{Grace: time.Minute})

	_, err := r.machine.Create(t.Context(), healthy)
	require.NoError(t, err)
	r.machine.AwaitScheduled(t, healthy)
	s.DeleteWithoutInstance(t, r.machine.Name())
	holdInstance(t, s, r.machine.Name(), "test.example.com/hold")

	r.until(t, report{"TimedOut", "test.example.com/hold"}, []string{
		"DeleteMachine: delete virtualmachineinstances", "DeleteMachine: watch virtualmachineinstances",
		"DeleteMachine: get virtualmachineinstances, no. 2", "DeleteMachine: list pods",
	}, func(t *testing.T) { t.Helper(); require.False(t, r.deletionPass(t)) })

	holdInstance(t, s, r.machine.Name())
	r.remove(t)
	s.RequireNothingLeft(t)
}

// runBlocked blocks the deletion of the VirtualMachine with a finalizer for a while.
func runBlocked(t *testing.T, s *harness.Shoot, injector *faultInjector) {
	t.Helper()

	r := newReplay(t, s.NewMachine("zone-x", harness.EphemeralRoot), injector, harness.Settings{Grace: time.Minute, DeleteWait: time.Second})

	_, err := r.machine.Create(t.Context(), harness.NewDriver(harness.Settings{Grace: time.Minute}))
	require.NoError(t, err)
	s.SetFinalizers(t, r.machine.Name(), "test.example.com/hold")

	r.until(t, report{"TimedOut", "test.example.com/hold"}, []string{
		"DeleteMachine: watch virtualmachines", "DeleteMachine: get virtualmachineinstances", "DeleteMachine: get virtualmachines, no. 2",
	}, func(t *testing.T) { t.Helper(); require.False(t, r.deletionPass(t)) })

	s.SetFinalizers(t, r.machine.Name())
	r.remove(t)
	s.RequireNothingLeft(t)
}

// runAsOrphan removes the Machine. A process that has not seen the machine as an orphan before
// must not delete it.
func runAsOrphan(t *testing.T, s *harness.Shoot, injector *faultInjector) {
	t.Helper()

	clock := clocktesting.NewFakeClock(time.Now())
	r := newReplay(t, withKeys(t, s.NewMachine("zone-x", harness.EphemeralRoot), "ssh-ed25519 AAAA one"), injector, harness.Settings{Grace: time.Minute, Clock: clock})

	_, err := r.machine.Create(t.Context(), harness.NewDriver(harness.Settings{Grace: time.Minute}))
	require.NoError(t, err)

	r.machine.Machine.UID = ""
	r.expected = report{"OperationInProgress", "has no Machine"}

	passUntil(t, "the orphan is gone", func(t *testing.T) bool {
		t.Helper()

		if len(r.list(t)) == 0 {
			return true
		}

		known := r.told
		doomed := isTerminatingOrGone(t, s, r.machine.Name())
		r.deletionPass(t)
		require.True(t, known || doomed == isTerminatingOrGone(t, s, r.machine.Name()), "an orphan must not be deleted at its first observation")
		clock.Step(15 * time.Minute)

		return false
	})
	s.RequireNothingLeft(t)
}

// isTerminatingOrGone reports whether a VirtualMachine is being deleted, or gone.
func isTerminatingOrGone(t *testing.T, s *harness.Shoot, name string) bool {
	t.Helper()

	vm, err := s.KubeVirt.KubevirtV1().VirtualMachines(s.ProviderNamespace).Get(t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return true
	}

	require.NoError(t, err)

	return vm.DeletionTimestamp != nil
}

// withKeys gives the machine SSH keys, which have a separate Secret.
func withKeys(t *testing.T, m *harness.Machine, key string) *harness.Machine {
	t.Helper()

	m.Class.ProviderSpec.Raw = harness.MergeFields(t, m.Class.ProviderSpec.Raw, fmt.Sprintf(`{"sshKeys":[%q]}`, key))

	return m
}

// replaceImage replaces the broken image by one that can be imported.
func replaceImage(t *testing.T, s *harness.Shoot) {
	t.Helper()

	require.NoError(t, s.CDI.CdiV1beta1().DataVolumes(s.ProviderNamespace).Delete(t.Context(), "image", metav1.DeleteOptions{}))
	harness.Eventually(t, "the image's claim is gone", func(ctx context.Context) (bool, error) {
		_, err := s.Kube.CoreV1().PersistentVolumeClaims(s.ProviderNamespace).Get(ctx, "image", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return true, nil
		}

		return false, err
	})
	s.ImportImage(t, "image")
}

func holdInstance(t *testing.T, s *harness.Shoot, name string, finalizers ...string) {
	t.Helper()

	patch := harness.MarshalPatch(t, map[string]any{"metadata": map[string]any{"finalizers": finalizers}})
	_, err := s.KubeVirt.KubevirtV1().VirtualMachineInstances(s.ProviderNamespace).Patch(t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{})
	require.NoError(t, err)
}

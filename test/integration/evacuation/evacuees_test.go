// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package evacuation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	mcmclient "github.com/gardener/machine-controller-manager/pkg/client/clientset/versioned"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/driver"
	"github.com/stretchr/testify/require"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"kubevirt.io/client-go/kubevirt"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/evacuation"
	plugin "github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/kubevirt"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

// evacuees are machines of one MachineSet. Only the test changes their Machines, since
// machine-controller-manager does not run.
type evacuees struct {
	*harness.Shoot

	driver driver.Driver
	told   *diary
	set    *v1alpha1.MachineSet
	limits evacuation.Limits
}

// keep is a finalizer that keeps a Machine, like machine-controller-manager's own.
const keep = "test.example.com/keep"

// newEvacuees starts the evacuation controller with the shipped permissions, and a driver that
// notifies it of requests.
func newEvacuees(t *testing.T, limits evacuation.Limits) *evacuees {
	t.Helper()

	e := &evacuees{Shoot: harness.NewShoot(t), told: &diary{}, limits: limits}

	kubeconfig, err := harness.Lab().AllowEvacuation(t.Context(), e.Shoot.Shoot)
	require.NoError(t, err)

	e.driver = e.startEvacuation(t, kubeconfig)

	set := &v1alpha1.MachineSet{
		ObjectMeta: metav1.ObjectMeta{Name: "pool"},
		Spec:       v1alpha1.MachineSetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"name": "pool"}}},
	}
	e.set, err = e.MCM.MachineV1alpha1().MachineSets(e.Namespace).Create(t.Context(), set, metav1.CreateOptions{})
	require.NoError(t, err)

	return e
}

func (e *evacuees) startEvacuation(t *testing.T, kubeconfig []byte) driver.Driver {
	t.Helper()

	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	require.NoError(t, err)

	client, err := mcmclient.NewForConfig(config)
	require.NoError(t, err)

	controller := evacuation.New(evacuation.Options{
		Evacuator:      harness.NewEvacuator(),
		Machines:       client.MachineV1alpha1(),
		Namespace:      e.Namespace,
		Events:         e.told,
		Clock:          clock.RealClock{},
		Limits:         e.limits,
		Period:         200 * time.Millisecond,
		ClassRetention: time.Hour,
	})

	var run sync.WaitGroup

	run.Go(func() { controller.Run(t.Context()) })
	t.Cleanup(run.Wait)

	return harness.NewDriver(harness.Settings{Grace: time.Minute, Observers: []plugin.Observer{controller}})
}

// add creates running machines with Running Machines.
func (e *evacuees) add(t *testing.T, machines int) []*harness.Machine {
	t.Helper()

	return e.addIn(t, "zone-a", machines, `{}`)
}

// addIn does the same in a zone, with fields overlaid on their spec.
func (e *evacuees) addIn(t *testing.T, zone string, machines int, fields string) []*harness.Machine {
	t.Helper()

	var made []*harness.Machine

	for range machines {
		m := e.NewMachine(zone, harness.EphemeralRoot)
		m.Class.ProviderSpec.Raw = harness.MergeFields(t, m.Class.ProviderSpec.Raw, fields)
		m.Machine.UID = ""
		m.Machine.Finalizers = []string{keep}
		m.Machine.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(e.set, v1alpha1.SchemeGroupVersion.WithKind("MachineSet"))}
		m.Machine = e.createMachine(t, m.Machine)

		_, err := m.Create(t.Context(), e.driver)
		require.NoError(t, err)

		made = append(made, m)
	}

	e.scaleSet(t, int32(machines))

	for _, m := range made {
		harness.Eventually(t, m.Name()+" runs", func(ctx context.Context) (bool, error) {
			instance, err := e.KubeVirt.KubevirtV1().VirtualMachineInstances(e.ProviderNamespace).Get(ctx, m.Name(), metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return false, nil
			}

			return err == nil && instance.Status.Phase == kubevirtv1.Running, err
		})
	}

	return made
}

func (e *evacuees) createMachine(t *testing.T, machine *v1alpha1.Machine) *v1alpha1.Machine {
	t.Helper()

	made, err := e.MCM.MachineV1alpha1().Machines(e.Namespace).Create(t.Context(), machine, metav1.CreateOptions{})
	require.NoError(t, err)

	made.Status.CurrentStatus.Phase = v1alpha1.MachineRunning
	made, err = e.MCM.MachineV1alpha1().Machines(e.Namespace).UpdateStatus(t.Context(), made, metav1.UpdateOptions{})
	require.NoError(t, err)

	return made
}

func (e *evacuees) scaleSet(t *testing.T, replicas int32) {
	t.Helper()

	patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas)
	_, err := e.MCM.MachineV1alpha1().MachineSets(e.Namespace).Patch(t.Context(), e.set.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	require.NoError(t, err)
}

// setPhase sets the phase of a Machine.
func (e *evacuees) setPhase(t *testing.T, m *harness.Machine, phase v1alpha1.MachinePhase) {
	t.Helper()

	patch := fmt.Appendf(nil, `{"status":{"currentStatus":{"phase":%q}}}`, phase)
	_, err := e.MCM.MachineV1alpha1().Machines(e.Namespace).Patch(
		t.Context(), m.Name(), types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	require.NoError(t, err)
}

// isDeleted reports whether the Machine has been deleted.
func (e *evacuees) isDeleted(ctx context.Context, m *harness.Machine) (bool, error) {
	got, err := e.MCM.MachineV1alpha1().Machines(e.Namespace).Get(ctx, m.Name(), metav1.GetOptions{})

	return err == nil && got.DeletionTimestamp != nil, err
}

func (e *evacuees) awaitDeleted(t *testing.T, m *harness.Machine) {
	t.Helper()
	harness.Eventually(t, m.Name()+" is deleted", func(ctx context.Context) (bool, error) { return e.isDeleted(ctx, m) })
}

func (e *evacuees) requireKept(t *testing.T, m *harness.Machine) {
	t.Helper()

	deleted, err := e.isDeleted(t.Context(), m)
	require.NoError(t, err)
	require.False(t, deleted, "%s: %s", m.Name(), e.told)
}

// finish acts like machine-controller-manager on a deleted Machine whose node is
// drained, and creates another.
func (e *evacuees) finish(t *testing.T, m *harness.Machine) {
	t.Helper()

	require.NoError(t, m.Remove(t.Context(), e.driver))
	e.unfinalize(t, m)

	successor := e.NewMachine("zone-a", harness.EphemeralRoot)
	successor.Machine.UID = ""
	successor.Machine.OwnerReferences = m.Machine.OwnerReferences
	e.createMachine(t, successor.Machine)
}

func (e *evacuees) unfinalize(t *testing.T, m *harness.Machine) {
	t.Helper()

	_, err := e.MCM.MachineV1alpha1().Machines(e.Namespace).Patch(
		t.Context(), m.Name(), types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	require.NoError(t, err)
}

// evict requests the eviction of a machine's pod, as kubectl drain does, and requires
// that KubeVirt refuses it.
func evict(t *testing.T, s *harness.Shoot, name string) {
	t.Helper()

	pods, err := s.Kube.CoreV1().Pods(s.ProviderNamespace).List(t.Context(), metav1.ListOptions{
		LabelSelector: "kubevirt.io=virt-launcher,kubevirt.machine.gardener.cloud/machine=" + name,
	})
	require.NoError(t, err)
	require.Len(t, pods.Items, 1)

	err = s.Kube.PolicyV1().Evictions(s.ProviderNamespace).Evict(t.Context(),
		&policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: pods.Items[0].Name, Namespace: s.ProviderNamespace}})
	require.True(t, apierrors.IsTooManyRequests(err), "%v", err)
}

// cancelEviction removes the mark, as virt-api does for `virtctl evacuate-cancel`. Only KubeVirt
// may change an instance's status.
func cancelEviction(t *testing.T, s *harness.Shoot, name string) {
	t.Helper()

	config := rest.CopyConfig(harness.Lab().Provider.Config())
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:kubevirt:kubevirt-apiserver", Groups: []string{"system:masters"}}

	client, err := kubevirt.NewForConfig(config)
	require.NoError(t, err)

	instance, err := client.KubevirtV1().VirtualMachineInstances(s.ProviderNamespace).Patch(
		t.Context(), name, types.JSONPatchType, []byte(`[{"op":"remove","path":"/status/evacuationNodeName"}]`), metav1.PatchOptions{})
	require.NoError(t, err)
	require.Empty(t, instance.Status.EvacuationNodeName)
}

// diary records the Events of the evacuation controller, by machine.
type diary struct {
	record.EventRecorder

	mu      sync.Mutex
	entries []string
}

// Event implements record.EventRecorder.
func (d *diary) Event(object runtime.Object, _, reason, message string) {
	d.mu.Lock()
	defer d.mu.Unlock()

	if m, ok := object.(*v1alpha1.Machine); ok {
		d.entries = append(d.entries, m.Name+" "+reason+": "+message)
	}
}

// has reports whether an Event with this reason and text was recorded for a machine.
func (d *diary) has(m *harness.Machine, reason, text string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()

	return slices.ContainsFunc(d.entries, func(entry string) bool {
		return strings.HasPrefix(entry, m.Name()+" "+reason+": ") && strings.Contains(entry, text)
	})
}

// await waits for an Event of a machine.
func (d *diary) await(t *testing.T, m *harness.Machine, reason, text string) {
	t.Helper()

	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, harness.Settled, true, func(context.Context) (bool, error) {
		ended := d.has(m, "EvacuationEnded", "")

		if found := d.has(m, reason, text); found || !ended {
			return found, nil
		}

		return false, errors.New("its evacuation has ended")
	})
	require.NoError(t, err, "%s: no Event %s with the text %q; Events: %s", m.Name(), reason, text, d)
}

// String returns all Events.
func (d *diary) String() string {
	d.mu.Lock()
	defer d.mu.Unlock()

	return fmt.Sprintf("%q", d.entries)
}

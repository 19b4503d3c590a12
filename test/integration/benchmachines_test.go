//go:build bench

package integration

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// benchOverhead compares machines that machine-controller-manager makes with the same VirtualMachines and Secrets made by hand, fifty at a
// time each. Both are counted from the object that is asked for to the instance that runs.
func benchOverhead(t *testing.T, b *bench) {
	byHand, byDriver := overheadByHand(t), overheadByDriver(t)

	b.add(fmt.Sprintf("VirtualMachine applied by hand to running, %d at once", fifty), distribution(byHand), "")
	b.add(fmt.Sprintf("Machine created to running, %d at once", fifty), distribution(byDriver), "")
	b.add("what the driver and machine-controller-manager add",
		fmt.Sprintf("median %s, p95 %s", seconds(percentile(byDriver, 50)-percentile(byHand, 50)), seconds(percentile(byDriver, 95)-percentile(byHand, 95))),
		"median 1 s")
}

func distribution(took []time.Duration) string {
	return fmt.Sprintf("median %s, p95 %s", seconds(percentile(took, 50)), seconds(percentile(took, 95)))
}

func percentile(took []time.Duration, percent int) time.Duration {
	sorted := slices.Sorted(slices.Values(took))

	return sorted[(len(sorted)-1)*percent/100]
}

// smallSpec is spec with so little memory that a zone has room for many.
func (s *shoot) smallSpec(t *testing.T, zone, rootVolume string) []byte {
	t.Helper()

	return layOver(t, s.spec(zone, rootVolume), `{"memory":{"guest":"64Mi"}}`)
}

// overheadByHand lets the driver make one machine, and applies what it has made again and again under other names.
func overheadByHand(t *testing.T) []time.Duration {
	t.Helper()

	s, d := newShoot(t), newDriver(settings{grace: time.Minute})
	m := s.newMachine("zone-a", ephemeralRoot)
	m.class.ProviderSpec.Raw = s.smallSpec(t, "zone-a", ephemeralRoot)
	_, err := m.create(t.Context(), d)
	require.NoError(t, err)

	vm := s.vm(t, m.name())
	secret, err := s.kube.CoreV1().Secrets(s.ProviderNamespace).Get(t.Context(), m.name()+"-userdata", metav1.GetOptions{})
	require.NoError(t, err)
	require.NoError(t, m.remove(t.Context(), d))

	began, runs := map[string]time.Time{}, s.seenInstances(t, running)

	var (
		mu       sync.Mutex
		applying sync.WaitGroup
	)

	for i := range fifty {
		name := fmt.Sprintf("hand-%d", i)
		otherVM, otherSecret := renamed(t, vm, m.name(), name), renamed(t, secret, m.name(), name)

		applying.Go(func() {
			mu.Lock()
			began[name] = time.Now()
			mu.Unlock()

			_, err := s.kube.CoreV1().Secrets(s.ProviderNamespace).Create(t.Context(), otherSecret, metav1.CreateOptions{})
			require.NoError(t, err)
			_, err = s.kubevirt.KubevirtV1().VirtualMachines(s.ProviderNamespace).Create(t.Context(), otherVM, metav1.CreateOptions{})
			require.NoError(t, err)
		})
	}

	applying.Wait()

	took := runs.since(t, began)
	vms := s.kubevirt.KubevirtV1().VirtualMachines(s.ProviderNamespace)
	require.NoError(t, vms.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}))
	require.NoError(t, s.kube.CoreV1().Secrets(s.ProviderNamespace).DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}))
	s.requireNothingLeft(t)

	return took
}

// renamed returns an object as somebody would write it, with another name wherever the old one was.
func renamed[T any](t *testing.T, object *T, from, to string) *T {
	t.Helper()

	raw, err := yaml.Marshal(object)
	require.NoError(t, err)

	var fields map[string]any

	require.NoError(t, yaml.Unmarshal([]byte(strings.ReplaceAll(string(raw), from, to)), &fields))
	delete(fields, "status")

	metadata, ok := fields["metadata"].(map[string]any)
	require.True(t, ok)

	for _, set := range []string{"uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "finalizers"} {
		delete(metadata, set)
	}

	raw, err = yaml.Marshal(fields)
	require.NoError(t, err)

	other := new(T)
	require.NoError(t, yaml.Unmarshal(raw, other))

	return other
}

// overheadByDriver has machine-controller-manager make the machines.
func overheadByDriver(t *testing.T) []time.Duration {
	t.Helper()

	s := newShoot(t)
	s.runControllers(t)
	s.applyCredentials(t)

	began, runs := s.seenMachines(t, made), s.seenInstances(t, running)
	s.addPool(t, s.Name, fifty, s.smallSpec(t, "zone-a", ephemeralRoot))

	took := runs.since(t, began.waitFor(t, fifty))
	s.awaitEnd(t)

	return took
}

// benchMemory measures the sidecar beside a thousand Machines that run, and their Nodes: what its caches hold. The driver itself keeps
// nothing of a machine that runs, so that there are no VirtualMachines.
func benchMemory(t *testing.T, b *bench) {
	s := newShoot(t)
	s.applyCredentials(t)
	s.addPool(t, s.Name, 0, s.spec("zone-a", ephemeralRoot))

	var making sync.WaitGroup

	names := make(chan string)

	for range 16 {
		making.Go(func() {
			for name := range names {
				s.pretendRunning(t, name)
			}
		})
	}

	for i := range thousand {
		names <- fmt.Sprintf("%s-%d", s.Name, i)
	}

	close(names)
	making.Wait()

	process := s.startSidecar(t)

	eventually(t, "the sidecar has worked on all Machines", func(ctx context.Context) (bool, error) {
		list, err := s.mcm.MachineV1alpha1().Machines(s.Namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}

		return !slices.ContainsFunc(list.Items, func(m v1alpha1.Machine) bool { return len(m.Finalizers) == 0 }), nil
	})
	b.add(fmt.Sprintf("memory of the sidecar at %d Machines that run", thousand), memoryOf(process), "")
}

// pretendRunning makes a Machine as it is when it runs, and its Node.
func (s *shoot) pretendRunning(t *testing.T, name string) {
	t.Helper()

	id := "kubevirt://" + name
	machines := s.mcm.MachineV1alpha1().Machines(s.Namespace)
	m, err := machines.Create(t.Context(), &v1alpha1.Machine{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"name": s.Name, v1alpha1.NodeLabelKey: name}},
		Spec:       v1alpha1.MachineSpec{ProviderID: id, Class: v1alpha1.ClassSpec{Kind: "MachineClass", Name: s.Name}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)

	m.Status.CurrentStatus = v1alpha1.CurrentStatus{Phase: v1alpha1.MachineRunning, LastUpdateTime: metav1.Now()}
	_, err = machines.UpdateStatus(t.Context(), m, metav1.UpdateOptions{})
	require.NoError(t, err)

	nodes := s.target.CoreV1().Nodes()
	_, err = nodes.Create(t.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{ProviderID: id},
	}, metav1.CreateOptions{})
	require.NoError(t, err)

	ready := fmt.Appendf(nil, `{"status":{"conditions":[{"type":"Ready","status":"True","lastHeartbeatTime":%q}]}}`, time.Now().UTC().Format(time.RFC3339))
	_, err = nodes.Patch(t.Context(), name, types.StrategicMergePatchType, ready, metav1.PatchOptions{}, "status")
	require.NoError(t, err)
}

// seen are the instants at which objects were first seen to be something, by name.
type seen struct {
	mu sync.Mutex
	at map[string]time.Time
}

// firstSeen notes when objects of a watch first satisfy a condition, until the test ends.
func firstSeen[T metav1.Object](t *testing.T, stream watch.Interface, err error, holds func(T) bool) *seen {
	t.Helper()
	require.NoError(t, err)
	t.Cleanup(stream.Stop)

	s := &seen{at: map[string]time.Time{}}

	go func() {
		for event := range stream.ResultChan() {
			if object, ok := event.Object.(T); ok && holds(object) {
				s.note(object.GetName())
			}
		}
	}()

	return s
}

func (s *seen) note(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()

	if _, known := s.at[name]; !known {
		s.at[name] = time.Now()
	}
}

// waitFor waits until so many were seen, and returns when each was.
func (s *seen) waitFor(t *testing.T, many int) map[string]time.Time {
	t.Helper()

	found := map[string]time.Time{}

	within(t, 10*time.Minute, fmt.Sprintf("%d are seen", many), func(context.Context) (bool, error) {
		s.mu.Lock()
		defer s.mu.Unlock()

		for name, at := range s.at {
			found[name] = at
		}

		return len(found) >= many, nil
	})

	return found
}

// since returns how long each took since it began.
func (s *seen) since(t *testing.T, began map[string]time.Time) []time.Duration {
	t.Helper()

	var took []time.Duration
	for name, at := range s.waitFor(t, len(began)) {
		took = append(took, at.Sub(began[name]))
	}

	return took
}

// last returns when the last of so many was seen.
func (s *seen) last(t *testing.T, many int) time.Time {
	t.Helper()

	at := slices.SortedFunc(maps.Values(s.waitFor(t, many)), time.Time.Compare)

	return at[many-1]
}

func (s *shoot) seenMachines(t *testing.T, holds func(*v1alpha1.Machine) bool) *seen {
	t.Helper()

	stream, err := s.mcm.MachineV1alpha1().Machines(s.Namespace).Watch(t.Context(), metav1.ListOptions{})

	return firstSeen(t, stream, err, holds)
}

func (s *shoot) seenVirtualMachines(t *testing.T) *seen {
	t.Helper()

	stream, err := s.kubevirt.KubevirtV1().VirtualMachines(s.ProviderNamespace).Watch(t.Context(), metav1.ListOptions{})

	return firstSeen(t, stream, err, func(*kubevirtv1.VirtualMachine) bool { return true })
}

func (s *shoot) seenInstances(t *testing.T, holds func(*kubevirtv1.VirtualMachineInstance) bool) *seen {
	t.Helper()

	stream, err := s.kubevirt.KubevirtV1().VirtualMachineInstances(s.ProviderNamespace).Watch(t.Context(), metav1.ListOptions{})

	return firstSeen(t, stream, err, holds)
}

func made(*v1alpha1.Machine) bool { return true }

func running(instance *kubevirtv1.VirtualMachineInstance) bool {
	return instance.Status.Phase == kubevirtv1.Running
}

func unschedulable(instance *kubevirtv1.VirtualMachineInstance) bool {
	return slices.ContainsFunc(instance.Status.Conditions, func(c kubevirtv1.VirtualMachineInstanceCondition) bool {
		return string(c.Type) == string(corev1.PodScheduled) && c.Status == corev1.ConditionFalse
	})
}

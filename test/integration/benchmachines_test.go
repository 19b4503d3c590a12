//go:build bench

package integration

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// longest bounds what is waited for. It is longer than elsewhere: a measurement of something slow is worth having.
const longest = 10 * time.Minute

// benchOverhead compares machines that machine-controller-manager and the driver make with the same VirtualMachines and Secrets made by
// hand. Each round asks for all of them at once, and each machine is timed from the request for its first object to its instance that
// runs. The rounds alternate, since the host is not as fast all the time.
func benchOverhead(t *testing.T, b *bench) {
	var byHand, byDriver []time.Duration

	for _, round := range []struct {
		took *[]time.Duration
		run  func(*testing.T) []time.Duration
	}{
		{&byHand, overheadByHand}, {&byDriver, overheadByDriver}, {&byDriver, overheadByDriver}, {&byHand, overheadByHand},
	} {
		*round.took = append(*round.took, round.run(t)...)
	}

	b.note(fmt.Sprintf("(a) Secret and VirtualMachine created by hand to instance running, 2 x %d at once", fifty), distribution(byHand))
	b.note(fmt.Sprintf("(b) Machine of a known class created to instance running, 2 x %d at once", fifty), distribution(byDriver))

	median, tail := percentile(byDriver, 50)-percentile(byHand, 50), percentile(byDriver, 95)-percentile(byHand, 95)
	b.judge("overhead: median of (b) minus median of (a), p95 of (b) minus p95 of (a)",
		fmt.Sprintf("median %s, p95 %s", seconds(median), seconds(tail)), median.Seconds(), 1, "s (median)")
}

func distribution(took []time.Duration) string {
	return fmt.Sprintf("median %s, p95 %s", seconds(percentile(took, 50)), seconds(percentile(took, 95)))
}

// percentile returns the smallest of the values that so many percent of them do not exceed: the nearest rank.
func percentile(took []time.Duration, percent int) time.Duration {
	sorted := slices.Sorted(slices.Values(took))

	return sorted[(len(sorted)*percent+99)/100-1]
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

	var (
		vms, secrets = s.kubevirt.KubevirtV1().VirtualMachines(s.ProviderNamespace), s.kube.CoreV1().Secrets(s.ProviderNamespace)
		otherVMs     = make([]*kubevirtv1.VirtualMachine, fifty)
		otherSecrets = make([]*corev1.Secret, fifty)
		began, runs  = &seen{at: map[string]time.Time{}}, s.seenInstances(t, running)
	)

	for i := range fifty {
		otherVMs[i], otherSecrets[i] = renamed(t, vm, m.name(), s.nth(i)), renamed(t, secret, m.name(), s.nth(i))
	}

	forEach(t, fifty, fifty, func(ctx context.Context, i int) error {
		began.note(s.nth(i))

		if _, err := secrets.Create(ctx, otherSecrets[i], metav1.CreateOptions{}); err != nil {
			return err
		}

		_, err := vms.Create(ctx, otherVMs[i], metav1.CreateOptions{})

		return err
	})

	took := runs.since(t, began.at)

	require.NoError(t, vms.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}))
	require.NoError(t, secrets.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}))
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
	s.applyCredentials(t)
	s.addClass(t, s.smallSpec(t, "zone-a", ephemeralRoot))
	s.runControllers(t)

	// machine-controller-manager puts a finalizer on a class for its first Machine, which it tries again after five seconds.
	_, err := s.mcm.MachineV1alpha1().Machines(s.Namespace).Create(t.Context(), s.wanted(s.Name+"-first"), metav1.CreateOptions{})
	require.NoError(t, err)
	s.awaitRunning(t, 1)

	runs := s.seenInstances(t, running)
	took := runs.since(t, s.createMachines(t, fifty))
	s.endMachines(t)

	return took
}

// addClass makes a MachineClass with the name of the shoot, for Machines that no MachineDeployment makes.
func (s *shoot) addClass(t *testing.T, spec []byte) {
	t.Helper()

	_, err := s.mcm.MachineV1alpha1().MachineClasses(s.Namespace).Create(t.Context(), &v1alpha1.MachineClass{
		ObjectMeta:           metav1.ObjectMeta{Name: s.Name},
		Provider:             "kubevirt",
		ProviderSpec:         runtime.RawExtension{Raw: spec},
		CredentialsSecretRef: &corev1.SecretReference{Name: "cloudprovider", Namespace: s.Namespace},
		SecretRef:            &corev1.SecretReference{Name: "example-worker-userdata", Namespace: s.Namespace},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
}

// wanted returns a Machine of the shoot's class, as it is created.
func (s *shoot) wanted(name string) *v1alpha1.Machine {
	return &v1alpha1.Machine{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"name": s.Name}},
		Spec:       v1alpha1.MachineSpec{Class: v1alpha1.ClassSpec{Kind: "MachineClass", Name: s.Name}},
	}
}

// createMachines creates so many Machines at once, of no MachineSet: it would create them one batch after the other. It returns when each
// was asked for.
func (s *shoot) createMachines(t *testing.T, many int) map[string]time.Time {
	t.Helper()

	began := &seen{at: map[string]time.Time{}}

	forEach(t, many, many, func(ctx context.Context, i int) error {
		began.note(s.nth(i))

		_, err := s.mcm.MachineV1alpha1().Machines(s.Namespace).Create(ctx, s.wanted(s.nth(i)), metav1.CreateOptions{})

		return err
	})

	return began.at
}

// endMachines deletes all MachineDeployments and Machines, and waits until nothing is left but what is named.
func (s *shoot) endMachines(t *testing.T, but ...string) {
	t.Helper()

	machines := s.mcm.MachineV1alpha1().Machines(s.Namespace)

	require.NoError(t, s.mcm.MachineV1alpha1().MachineDeployments(s.Namespace).DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}))
	require.NoError(t, machines.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}))
	within(t, longest, "all Machines are gone", func(ctx context.Context) (bool, error) {
		list, err := machines.List(ctx, metav1.ListOptions{})

		return err == nil && len(list.Items) == 0, err
	})
	s.requireNothingLeft(t, but...)
}

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

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestCrashMatrix lets every fault happen to every call that the driver makes, and requires that machine-controller-manager's
// normal retries reach the wanted state: one machine with the Secret of the last CreateMachine call, and in the end nothing. It
// finds the calls by itself, so a new one is covered on the day it is added.
func TestCrashMatrix(t *testing.T) {
	t.Parallel()

	matrix := newMatrix()

	t.Cleanup(func() { t.Logf("calls x faults:\n%s", matrix) })

	for _, f := range faults() {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			matrix.add(f, liveThrough(t, f))
		})
	}
}

// liveThrough takes a machine from its creation to its end, under one fault, and returns the calls that it happened to.
func liveThrough(t *testing.T, f fault) map[string]bool {
	t.Helper()

	s := newShoot(t)
	saboteur := newSaboteur(f)
	r := newReplay(s.newMachine("zone-a", importedRoot), saboteur, settings{grace: time.Minute})

	r.create(t)
	r.requireWhole(t, s)
	require.Equal(t, map[string]string{"kubevirt://" + r.name(): r.name()}, r.list(t))
	r.remove(t)
	s.requireNothingLeft(t)
	t.Logf("%d CreateMachine calls; codes: %s", r.created, strings.Join(r.codes, ", "))

	return saboteur.calls()
}

// requireWhole checks that all of the machine is there, once.
func (r *replay) requireWhole(t *testing.T, s *shoot) {
	t.Helper()

	root := s.vm(t, r.name()).Spec.DataVolumeTemplates[0]
	disk, image := root.Name, root.Spec.Source.PVC.Name
	want := []string{
		"VirtualMachine " + r.name(), "VirtualMachineInstance " + r.name(), "Secret " + r.name() + "-userdata",
		"DataVolume " + disk, "PersistentVolumeClaim " + disk, "DataVolume " + image, "PersistentVolumeClaim " + image,
	}

	var have []string

	eventually(t, "CDI's helpers are gone", func(ctx context.Context) (bool, error) {
		var err error

		have, err = s.left(ctx)

		return len(have) <= len(want), err
	})
	require.ElementsMatch(t, want, have)

	secret, err := s.kube.CoreV1().Secrets(s.ProviderNamespace).Get(t.Context(), r.name()+"-userdata", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, string(r.userData()), string(secret.Data["userdata"]), "the user data of the last CreateMachine call")
}

// matrix collects which calls met which faults.
type matrix struct {
	mu   sync.Mutex
	rows map[string]map[string]bool
}

func newMatrix() *matrix {
	return &matrix{rows: map[string]map[string]bool{}}
}

func (m *matrix) add(f fault, calls map[string]bool) {
	m.mu.Lock()
	defer m.mu.Unlock()

	for call := range calls {
		if m.rows[call] == nil {
			m.rows[call] = map[string]bool{}
		}

		m.rows[call][f.name] = true
	}
}

func (m *matrix) String() string {
	var b strings.Builder

	cells := 0

	for _, call := range slices.Sorted(maps.Keys(m.rows)) {
		fmt.Fprintf(&b, "%-45s %s\n", call, strings.Join(slices.Sorted(maps.Keys(m.rows[call])), ", "))
		cells += len(m.rows[call])
	}

	fmt.Fprintf(&b, "%d calls, %d cells", len(m.rows), cells)

	return b.String()
}

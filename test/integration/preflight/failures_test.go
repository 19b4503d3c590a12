// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/util/provider/driver"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/machinecodes/codes"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/behaviour"
)

// TestFailureTable provokes failures, with the real components where available, and checks
// which report reaches machine-controller-manager and that it disappears with its cause.
// It prints a line per row.
func TestFailureTable(t *testing.T) {
	t.Parallel()

	table := &lines{}

	t.Cleanup(func() { t.Logf("provoked by, token, code, seconds until it is reported:\n%s", table) })

	rows := slices.Concat(capacityFailures(), refusedFailures(), storageFailures(), importerFailures(), startFailures())
	// More at once would take as long in total, and longer for each: the
	// control planes are saturated.
	places := make(chan struct{}, 6)

	var running sync.WaitGroup
	defer running.Wait()

	for _, f := range rows {
		running.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()

			t.Run(f.By, func(t *testing.T) { table.add(run(t, &f)) })
		})
	}
}

// run runs the row and returns its line.
func run(t *testing.T, f *harness.Failure) string {
	t.Helper()

	s := harness.NewShoot(t)
	d := harness.NewDriver(harness.Settings{Grace: harness.ShortGrace, Wait: 2 * time.Second})
	m := newFailing(t, s, f)
	began := time.Now()

	err := s.AwaitFailure(t, f, m, d)
	took := time.Since(began)

	require.Equal(t, f.Code, harness.CodeOf(err), "%v", err)
	require.Contains(t, err.Error(), "["+f.Want+": ", "the text begins with the token")
	t.Log(err)
	requireDiagnosed(t, s, f, m)

	if f.Heal != nil {
		f.Heal(t, s)
		m.AwaitRecovery(t, d)
	}

	if !f.Cut {
		require.NoError(t, m.Remove(t.Context(), d), "a machine that never ran is deleted like any other")
	}

	return fmt.Sprintf("%-42s %-26s %-20s %4.1f", f.By, f.Want, f.Code, took.Seconds())
}

// newFailing returns the row's machine.
func newFailing(t *testing.T, s *harness.Shoot, f *harness.Failure) *harness.Machine {
	t.Helper()

	root := f.Root
	zone := f.Zone
	if root == "" {
		root = harness.EphemeralRoot
	}

	if zone == "" {
		zone = "zone-a"
	}

	if f.Provoke != nil {
		f.Provoke(t, s)
	}

	m := s.NewMachine(zone, root)
	if f.Spec != "" {
		m.Class.ProviderSpec.Raw = harness.MergeFields(t, m.Class.ProviderSpec.Raw, f.Spec)
	}

	return m
}

// TestRequestsOfAWaitingMachine checks the budget of requests per minute of a machine that cannot
// be scheduled for a long time, healthy or not. A minute lasts ten seconds here.
func TestRequestsOfAWaitingMachine(t *testing.T) {
	t.Parallel()

	const minute, rounds, perMinute = 10 * time.Second, 3, 18
	// The evidence is read once a minute, in at most five requests. A period of two minutes may contain the
	// beginning of three of these.
	const evidence = 5

	waiting := map[string]func(*testing.T, *harness.Shoot) *harness.Machine{
		"for an image": func(t *testing.T, s *harness.Shoot) *harness.Machine {
			t.Helper()
			s.PatchNamespace(t, map[string]any{"annotations": map[string]any{behaviour.ImportLatencyAnnotation: "10m"}})
			s.MakeImage(t, "https://images.example.com/worker.qcow2")

			return s.NewMachine("zone-a", harness.CloneRoot)
		},
		"for room": func(t *testing.T, s *harness.Shoot) *harness.Machine {
			t.Helper()
			return s.NewMachine("zone-x", harness.ImportedRoot)
		},
	}

	for name, prepare := range waiting {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			c := &harness.Counter{}
			s := harness.NewShoot(t)
			d := harness.NewDriver(harness.Settings{Grace: minute / 2, Wait: minute / 4, Wrap: c.Wrap})
			m := prepare(t, s)
			_, err := m.Create(t.Context(), d)
			require.NoError(t, err)

			pass(t, m, d, rounds, minute/12)
			c.Take()

			began := time.Now()
			pass(t, m, d, 2*rounds, minute/12)
			took := time.Since(began)

			reads, writes, watches := c.Take()
			t.Logf("in %.1f minutes: %d reads, %d watches (budget: %d per minute)", took.Seconds()/minute.Seconds(), reads, watches, perMinute)
			require.Zero(t, writes)
			require.LessOrEqual(t, float64(reads+watches), perMinute*took.Seconds()/minute.Seconds()+evidence)
			require.NoError(t, m.Remove(t.Context(), d))
		})
	}
}

// pass calls the driver as machine-controller-manager does, the given number of times
// and with the given pause.
func pass(t *testing.T, m *harness.Machine, d driver.Driver, times int, pause time.Duration) {
	t.Helper()

	for range times {
		_, err := m.Status(t.Context(), d)
		require.Equal(t, codes.Uninitialized, harness.CodeOf(err))

		_, _ = m.Initialize(t.Context(), d) // machine-controller-manager retries in either case.

		<-time.After(pause)
	}
}

// TestRoleOfAnOlderRelease lacks the permissions for a detailed diagnosis. Nothing breaks, and the
// state of the VirtualMachine itself is reported.
func TestRoleOfAnOlderRelease(t *testing.T) {
	t.Parallel()

	s := harness.NewShoot(t)
	d := harness.NewDriver(harness.Settings{Grace: harness.ShortGrace, Wait: 2 * time.Second})

	s.ExpectDenials("the driver has an older Role")

	roles := s.Kube.RbacV1().Roles(s.ProviderNamespace)
	role, err := roles.Get(t.Context(), "machine-controller", metav1.GetOptions{})
	require.NoError(t, err)

	for i := range role.Rules {
		switch role.Rules[i].Resources[0] {
		case "datavolumes": // twice, with the optional rule
			role.Rules[i].Verbs = []string{"deletecollection"}
		case "pods":
			role.Rules[i].Verbs = []string{"get"}
		case "persistentvolumeclaims":
			role.Rules[i].Verbs = []string{"list"}
		default:
		}
	}

	_, err = roles.Update(t.Context(), role, metav1.UpdateOptions{})
	require.NoError(t, err)
	s.DriverRight("create", "cdi.kubevirt.io", "datavolumes").Await(t, false)

	broken := s.NewMachine("zone-a", `{"source":{"http":{"url":"https://images.example.com/404/a"}},"storage":{"storageClassName":"immediate","resources":{"requests":{"storage":"1Gi"}}}}`)
	_, err = broken.Create(t.Context(), d)
	require.Equal(t, codes.PermissionDenied, harness.CodeOf(err), "golden images need separate permissions")
	require.ErrorContains(t, err, "disablePreAllocatedDataVolumes")

	const importing = `{"disablePreAllocatedDataVolumes":true}`

	broken.Class.ProviderSpec.Raw = harness.MergeFields(t, broken.Class.ProviderSpec.Raw, importing)
	_, err = broken.Create(t.Context(), d)
	require.NoError(t, err)

	for range 5 { // Longer than it takes with the permissions.
		_, err = broken.Initialize(t.Context(), d)
		require.NoError(t, err)
	}

	require.NoError(t, broken.Remove(t.Context(), d))
	limitResource(t, s, "persistentvolumeclaims")

	f := &harness.Failure{Want: "QuotaExceeded"}
	m := s.NewMachine("zone-a", harness.ImportedRoot)
	m.Class.ProviderSpec.Raw = harness.MergeFields(t, m.Class.ProviderSpec.Raw, importing)
	require.Equal(t, codes.ResourceExhausted, harness.CodeOf(s.AwaitFailure(t, f, m, d)))
	require.NoError(t, m.Remove(t.Context(), d))
}

// lines collects the rows of a table.
type lines struct {
	mu  sync.Mutex
	all []string
}

func (l *lines) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()

	l.all = append(l.all, line)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()

	slices.Sort(l.all)

	return strings.Join(l.all, "\n")
}

package integration

import (
	"context"
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
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane"
)

// failure is one row of the failure table.
type failure struct {
	// by describes how it is provoked.
	by string
	// root is the machine's root volume, spec is overlaid on its ProviderSpec; both may be empty.
	// Rows that do not concern images and volumes need no root volume, and do not wait for one.
	root, spec string
	zone       string
	// provoke causes the failure before the machine is created, spoil afterwards.
	provoke func(*testing.T, *shoot)
	spoil   func(*testing.T, *shoot, *machine)
	// heal ends the failure; nil: not possible.
	heal func(*testing.T, *shoot)
	// want is the token of the report, code its code.
	want string
	code codes.Code
	// cut means that the driver can no longer reach its objects.
	cut bool
}

const (
	cloneRoot = `{"source":{"pvc":{"name":"image"}},"storage":{"storageClassName":"immediate","resources":{"requests":{"storage":"1Gi"}}}}`
	// shortGrace makes failures reportable soon: capacity failures after this,
	// others after twice as long.
	shortGrace = 2 * time.Second
)

// TestFailureTable provokes failures, with the real components where available, and checks
// which report reaches machine-controller-manager and that it disappears with its cause.
// It prints a line per row.
func TestFailureTable(t *testing.T) {
	t.Parallel()

	table := &lines{}

	t.Cleanup(func() { t.Logf("provoked by, token, code, seconds until it is reported:\n%s", table) })

	rows := slices.Concat(capacityFailures(), refusedFailures(), storageFailures(), startFailures())
	// More at once would take as long in total, and longer for each: the
	// control planes are saturated.
	places := make(chan struct{}, 6)

	var running sync.WaitGroup
	defer running.Wait()

	for _, f := range rows {
		running.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()

			t.Run(f.by, func(t *testing.T) { table.add(f.run(t)) })
		})
	}
}

// run runs the row and returns its line.
func (f *failure) run(t *testing.T) string {
	t.Helper()

	s, d := newShoot(t), newDriver(settings{grace: shortGrace, wait: 2 * time.Second})
	m := s.newFailing(t, f)
	began := time.Now()

	err := s.awaitFailure(t, f, m, d)
	took := time.Since(began)

	require.Equal(t, f.code, codeOf(err), "%v", err)
	require.Contains(t, err.Error(), "["+f.want+": ", "the token leads")
	t.Log(err)
	s.requireDiagnosed(t, f, m)

	if f.heal != nil {
		f.heal(t, s)
		m.awaitRecovery(t, d)
	}

	if !f.cut {
		require.NoError(t, m.remove(t.Context(), d), "a machine that never ran is deleted like any other")
	}

	return fmt.Sprintf("%-42s %-26s %-20s %4.1f", f.by, f.want, f.code, took.Seconds())
}

// newFailing returns the row's machine.
func (s *shoot) newFailing(t *testing.T, f *failure) *machine {
	t.Helper()

	root, zone := f.root, f.zone
	if root == "" {
		root = ephemeralRoot
	}

	if zone == "" {
		zone = "zone-a"
	}

	if f.provoke != nil {
		f.provoke(t, s)
	}

	m := s.newMachine(zone, root)
	if f.spec != "" {
		m.class.ProviderSpec.Raw = layOver(t, m.class.ProviderSpec.Raw, f.spec)
	}

	return m
}

// awaitFailure calls the driver as machine-controller-manager does until a call fails, and returns
// the error. GetMachineStatus must not be that call.
func (s *shoot) awaitFailure(t *testing.T, f *failure, m *machine, d driver.Driver) error {
	t.Helper()

	if _, err := m.create(t.Context(), d); err != nil {
		return err
	}

	if f.spoil != nil {
		f.spoil(t, s, m)
	}

	var failed error

	eventually(t, f.want+" is reported", func(ctx context.Context) (bool, error) {
		resp, err := m.status(ctx, d)
		require.Equal(t, codes.Uninitialized, codeOf(err), "only InitializeMachine reports what is wrong, and after OK nobody asks it")
		require.NotNil(t, resp)

		_, failed = m.initialize(ctx, d)

		return failed != nil && !importerHasNoPlaceYet(failed.Error()), nil
	})

	return failed
}

// importerHasNoPlaceYet reports whether a failure concerns CDI's importer, which waits for
// the scheduler like every pod. This is a failure only because of the tests' short grace
// period, and no test expects it.
func importerHasNoPlaceYet(failure string) bool {
	return strings.Contains(failure, "Importer pod cannot be scheduled")
}

// awaitRecovery waits until the machine is scheduled. A failure may be seen until
// then, but not afterwards.
func (m *machine) awaitRecovery(t *testing.T, d driver.Driver) {
	t.Helper()

	err := wait.PollUntilContextTimeout(t.Context(), 200*time.Millisecond, settled, true, func(ctx context.Context) (bool, error) {
		_, err := m.status(ctx, d)

		switch codeOf(err) {
		case codes.OK:
			return true, nil
		case codes.NotFound:
			_, _ = m.create(ctx, d) // The next pass returns the same.
		case codes.Uninitialized:
			_, _ = m.initialize(ctx, d)
		default:
		}

		return false, nil
	})
	require.NoError(t, err, "the cause is gone")

	_, err = m.initialize(t.Context(), d)
	require.NoError(t, err)
}

// TestRequestsOfAWaitingMachine checks the budget of requests per minute of a machine that cannot
// be scheduled for a long time, healthy or not. A minute lasts ten seconds here.
func TestRequestsOfAWaitingMachine(t *testing.T) {
	t.Parallel()

	const minute, rounds, perMinute = 10 * time.Second, 3, 18

	waiting := map[string]func(*testing.T, *shoot) *machine{
		"for an image": func(t *testing.T, s *shoot) *machine {
			t.Helper()
			s.patchNamespace(t, map[string]any{"annotations": map[string]any{dataplane.ImportLatencyAnnotation: "10m"}})
			s.makeImage(t, "https://images.example.com/worker.qcow2")

			return s.newMachine("zone-a", cloneRoot)
		},
		"for room": func(t *testing.T, s *shoot) *machine { t.Helper(); return s.newMachine("zone-x", importedRoot) },
	}

	for name, prepare := range waiting {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			c := &counter{}
			s, d := newShoot(t), newDriver(settings{grace: minute / 2, wait: minute / 4, wrap: c.wrap})
			m := prepare(t, s)
			_, err := m.create(t.Context(), d)
			require.NoError(t, err)

			m.pass(t, d, rounds, minute/12)
			c.take()

			began := time.Now()
			m.pass(t, d, 2*rounds, minute/12)
			took := time.Since(began)

			reads, writes, watches := c.take()
			t.Logf("in %.1f minutes: %d reads, %d watches (budget: %d per minute)", took.Seconds()/minute.Seconds(), reads, watches, perMinute)
			require.Zero(t, writes)
			require.LessOrEqual(t, float64(reads+watches), perMinute*took.Seconds()/minute.Seconds())
			require.NoError(t, m.remove(t.Context(), d))
		})
	}
}

// pass calls the driver as machine-controller-manager does, the given number of times
// and with the given pause.
func (m *machine) pass(t *testing.T, d driver.Driver, times int, pause time.Duration) {
	t.Helper()

	for range times {
		_, err := m.status(t.Context(), d)
		require.Equal(t, codes.Uninitialized, codeOf(err))

		_, _ = m.initialize(t.Context(), d) // machine-controller-manager retries in either case.

		<-time.After(pause)
	}
}

// TestRoleOfAnOlderRelease lacks the rights for a detailed diagnosis. Nothing breaks, and the state
// of the VirtualMachine itself is reported.
func TestRoleOfAnOlderRelease(t *testing.T) {
	t.Parallel()

	s, d := newShoot(t), newDriver(settings{grace: shortGrace, wait: 2 * time.Second})

	s.expectDenials("the driver has an older Role")

	roles := s.kube.RbacV1().Roles(s.ProviderNamespace)
	role, err := roles.Get(t.Context(), "machine-controller", metav1.GetOptions{})
	require.NoError(t, err)

	for i := range role.Rules {
		switch role.Rules[i].Resources[0] {
		case "datavolumes": // twice, with the optional rule
			role.Rules[i].Verbs = []string{"deletecollection"}
		case "pods":
			role.Rules[i].Verbs = []string{"get"}
		default:
		}
	}

	_, err = roles.Update(t.Context(), role, metav1.UpdateOptions{})
	require.NoError(t, err)
	s.driverRight("create", "cdi.kubevirt.io", "datavolumes").await(t, false)

	broken := s.newMachine("zone-a", `{"source":{"http":{"url":"https://images.example.com/404/a"}},"storage":{"storageClassName":"immediate","resources":{"requests":{"storage":"1Gi"}}}}`)
	_, err = broken.create(t.Context(), d)
	require.Equal(t, codes.PermissionDenied, codeOf(err), "golden images need rights of their own")
	require.ErrorContains(t, err, "disablePreAllocatedDataVolumes")

	const importing = `{"disablePreAllocatedDataVolumes":true}`

	broken.class.ProviderSpec.Raw = layOver(t, broken.class.ProviderSpec.Raw, importing)
	_, err = broken.create(t.Context(), d)
	require.NoError(t, err)

	for range 5 { // Longer than it takes with the rights.
		_, err = broken.initialize(t.Context(), d)
		require.NoError(t, err)
	}

	require.NoError(t, broken.remove(t.Context(), d))
	s.limit(t, "persistentvolumeclaims")

	f := &failure{want: "QuotaExceeded"}
	m := s.newMachine("zone-a", importedRoot)
	m.class.ProviderSpec.Raw = layOver(t, m.class.ProviderSpec.Raw, importing)
	require.Equal(t, codes.ResourceExhausted, codeOf(s.awaitFailure(t, f, m, d)))
	require.NoError(t, m.remove(t.Context(), d))
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

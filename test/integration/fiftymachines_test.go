package integration

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/util/provider/driver"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/machinecodes/codes"
	"github.com/stretchr/testify/require"
)

// TestFiftyMachinesAtOnce runs all methods for fifty machines concurrently, in `make soak` under
// the race detector. It requires that requests are not modified, because they are objects of
// machine-controller-manager's cache. The machines cannot be scheduled, which keeps them cheap.
func TestFiftyMachinesAtOnce(t *testing.T) {
	t.Parallel()
	everyWay(t, fiftyMachinesAtOnce)
}

func fiftyMachinesAtOnce(t *testing.T, newDriver func(settings) driver.Driver) {
	t.Helper()

	s, d := newShoot(t), newDriver(settings{grace: time.Minute, wait: time.Second})

	const many = 50

	machines := make([]*machine, many)
	for i := range machines {
		machines[i] = s.newMachine("zone-x", ephemeralRoot)
	}

	each := func(what string, do func(ctx context.Context, m *machine) error) {
		var wg sync.WaitGroup

		errs := make([]error, many)
		for i, m := range machines {
			wg.Go(func() { errs[i] = do(t.Context(), m) })
		}

		wg.Wait()

		for _, err := range errs {
			require.NoError(t, err, what)
		}
	}

	each("create", func(ctx context.Context, m *machine) error {
		return unchanged(m, func() error {
			_, err := m.create(ctx, d)

			return err
		})
	})
	each("initialize", func(ctx context.Context, m *machine) error {
		return unchanged(m, func() error {
			_, err := m.initialize(ctx, d)

			return err
		})
	})

	listed, err := machines[0].list(t.Context(), d)
	require.NoError(t, err)
	require.Len(t, listed, many)

	each("status and delete", func(ctx context.Context, m *machine) error {
		return unchanged(m, func() error {
			if _, err := m.status(ctx, d); codeOf(err) != codes.Uninitialized {
				return fmt.Errorf("the status of a machine without a place is %w", err)
			}

			return m.remove(ctx, d)
		})
	})
	s.requireNothingLeft(t)
}

// unchanged fails if a call modifies its request.
func unchanged(m *machine, call func() error) error {
	machineBefore, classBefore, secretBefore := m.machine.DeepCopy(), m.class.DeepCopy(), m.secret.DeepCopy()

	if err := call(); err != nil {
		return err
	}

	if !reflect.DeepEqual(machineBefore, m.machine) || !reflect.DeepEqual(classBefore, m.class) || !reflect.DeepEqual(secretBefore, m.secret) {
		return fmt.Errorf("the request for %s was changed", m.name())
	}

	return nil
}

// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package shoot

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

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

// TestFiftyMachinesAtOnce runs all methods for fifty machines concurrently, in `make soak` under
// the race detector. It requires that requests are not modified, because they are objects of
// machine-controller-manager's cache. The machines cannot be scheduled, which keeps them cheap.
func TestFiftyMachinesAtOnce(t *testing.T) {
	t.Parallel()
	harness.EveryWay(t, fiftyMachinesAtOnce)
}

func fiftyMachinesAtOnce(t *testing.T, newDriver func(harness.Settings) driver.Driver) {
	t.Helper()

	s := harness.NewShoot(t)
	d := newDriver(harness.Settings{Grace: time.Minute, Wait: time.Second})

	const many = 50

	machines := make([]*harness.Machine, many)
	for i := range machines {
		machines[i] = s.NewMachine("zone-x", harness.EphemeralRoot)
	}

	each := func(what string, do func(ctx context.Context, m *harness.Machine) error) {
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

	each("create", func(ctx context.Context, m *harness.Machine) error {
		return unchanged(m, func() error {
			_, err := m.Create(ctx, d)

			return err
		})
	})
	each("initialize", func(ctx context.Context, m *harness.Machine) error {
		return unchanged(m, func() error {
			_, err := m.Initialize(ctx, d)

			return err
		})
	})

	listed, err := machines[0].List(t.Context(), d)
	require.NoError(t, err)
	require.Len(t, listed, many)

	each("status and delete", func(ctx context.Context, m *harness.Machine) error {
		return unchanged(m, func() error {
			if _, err := m.Status(ctx, d); harness.CodeOf(err) != codes.Uninitialized {
				return fmt.Errorf("get the status of a machine without a host: %w", err)
			}

			return m.Remove(ctx, d)
		})
	})
	s.RequireNothingLeft(t)
}

// unchanged fails if a call modifies its request.
func unchanged(m *harness.Machine, call func() error) error {
	machineBefore := m.Machine.DeepCopy()
	classBefore := m.Class.DeepCopy()
	secretBefore := m.Secret.DeepCopy()

	if err := call(); err != nil {
		return err
	}

	if !reflect.DeepEqual(machineBefore, m.Machine) || !reflect.DeepEqual(classBefore, m.Class) || !reflect.DeepEqual(secretBefore, m.Secret) {
		return fmt.Errorf("the driver modified the request for %s", m.Name())
	}

	return nil
}

// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package kubevirt_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/util/provider/driver"
	"github.com/stretchr/testify/require"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// sleeper is a PluginSPI whose deletion ends a moment after its cancellation.
type sleeper struct {
	recorder

	slack time.Duration
}

func (s *sleeper) DeleteMachine(ctx context.Context, _ *spi.DeleteMachineInput) error {
	<-ctx.Done()

	timer := time.NewTimer(s.slack)
	<-timer.C

	return spi.ErrUnavailable
}

func TestStop(t *testing.T) {
	t.Parallel()

	for name, tc := range map[string]struct {
		slack, want time.Duration
	}{
		"CallsThatEnd":    {slack: time.Second, want: time.Second},
		"CallsThatLinger": {slack: time.Hour, want: 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			synctest.Test(t, func(t *testing.T) {
				r := validRequest()
				request := &driver.DeleteMachineRequest{Machine: r.machine, MachineClass: r.class, Secret: r.secret}
				plugin := newPlugin(&sleeper{slack: tc.slack})
				outer, release := context.WithCancel(t.Context())
				returned := make(chan struct{})

				go func() {
					_, _ = plugin.DeleteMachine(outer, request)
					close(returned)
				}()

				synctest.Wait()

				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
				defer cancel()

				began := time.Now()
				plugin.Stop(ctx)
				require.Equal(t, tc.want, time.Since(began))
				synctest.Wait()

				select {
				case <-returned:
					require.Fail(t, "a cancelled call is not a failure")
				default:
				}

				release()
				<-returned
			})
		})
	}
}

func TestStop_NoCallReturns(t *testing.T) {
	t.Parallel()

	synctest.Test(t, func(t *testing.T) {
		r := validRequest()
		plugin := newPlugin(&sleeper{})
		plugin.Stop(t.Context())

		outer, release := context.WithCancel(t.Context())
		returned := make(chan struct{})

		go func() {
			_, _ = plugin.DeleteMachine(outer, &driver.DeleteMachineRequest{Machine: r.machine, MachineClass: r.class, Secret: r.secret})
			close(returned)
		}()

		synctest.Wait()

		select {
		case <-returned:
			require.Fail(t, "it would be taken for a failure")
		default:
		}

		release()
		<-returned
	})
}

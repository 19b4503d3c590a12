// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/wait"
)

// Settled bounds every wait for the control planes to reach a state. It only ends failing tests, so
// it is long: other processes may use the cores too, and machine-controller-manager retries some
// operations only after three minutes, and CDI and virt-controller after pauses of up to 1000 seconds.
const Settled = 20 * time.Minute

// Eventually waits until the condition holds, and fails with its last error. An error does not end the
// wait: under load, API servers reject requests, and connections break.
func Eventually(t *testing.T, what string, condition func(ctx context.Context) (bool, error)) {
	t.Helper()
	Within(t, Settled, what, condition)
}

// Within is eventually with a custom limit.
func Within(t *testing.T, limit time.Duration, what string, condition func(ctx context.Context) (bool, error)) {
	t.Helper()

	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()

	// Most waits are long, and dozens of them query the API servers concurrently, so the pauses
	// grow with the duration of a wait.
	pauses := wait.Backoff{Duration: 200 * time.Millisecond, Factor: 1.3, Cap: time.Second, Steps: math.MaxInt32}.DelayFunc()
	var last error

	err := pauses.Until(ctx, true, true, func(ctx context.Context) (bool, error) {
		holds, err := condition(ctx)
		if ctx.Err() == nil {
			last = err
		}

		return holds && err == nil, nil
	})
	if err != nil {
		err = errors.Join(err, last)
	}

	require.NoError(t, err, "waiting until %s; the lab's logs are in %s", what, lab.LogDir)
}

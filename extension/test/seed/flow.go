// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package seed

import (
	"context"
	"time"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
)

const (
	// waitInterval is the time between two reads of a resource. gardenlet's is five or ten seconds, by which it only
	// notices later what has happened. Its thresholds for errors and its timeouts are the same here.
	waitInterval = 250 * time.Millisecond
	// repeatFor is how long an operation is repeated.
	repeatFor = 10 * time.Minute
)

// task is a task of gardenlet's flow for an operation.
type task struct {
	name string
	run  func(context.Context) error
}

// perform runs the tasks of an operation one after the other. gardenlet runs independent ones in parallel.
func (s *Botanist) perform(ctx context.Context, tasks ...task) error {
	for i, t := range tasks {
		if s.Progress != nil {
			s.Progress(t.name, int32(100*i/len(tasks)))
		}

		if err := t.run(ctx); err != nil {
			return err
		}
	}

	return nil
}

// await waits for a resource with gardenlet's function, which ends with an error of the resource that has lasted for a
// while. If the operation is repeated, it waits again, unless gardenlet does not repeat an operation after this error.
func (s *Botanist) await(ctx context.Context, wait func(context.Context) error) error {
	begun := time.Now()

	for {
		err := wait(ctx)
		if err == nil || s.Repeats == nil || isFinal(err) || time.Since(begun) > repeatFor {
			return err
		}

		s.Repeats(err)

		select {
		case <-ctx.Done():
			return err
		case <-time.After(backOff):
		}
	}
}

// isFinal reports whether gardenlet ends an operation with an error instead of repeating it.
func isFinal(err error) bool {
	return v1beta1helper.HasNonRetryableErrorCode(gardencorev1beta1.LastError{Codes: v1beta1helper.ExtractErrorCodes(err)})
}

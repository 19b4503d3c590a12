// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"sync"
)

// forEach runs f for every item, at most n at a time, and starts no more after the first error.
func forEach[T any](ctx context.Context, n int, items []T, f func(context.Context, *T) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var group sync.WaitGroup
	next := make(chan *T)
	for range n {
		group.Go(func() {
			for item := range next {
				if err := f(ctx, item); err != nil {
					cancel(err)
				}
			}
		})
	}
	for i := range items {
		select {
		case next <- &items[i]:
		case <-ctx.Done():
		}
	}
	close(next)
	group.Wait()
	return context.Cause(ctx)
}

// Together runs functions concurrently, cancels the others when one fails, and
// returns the first error.
func Together(ctx context.Context, functions ...func(context.Context) error) error {
	return forEach(ctx, len(functions), functions, func(ctx context.Context, f *func(context.Context) error) error {
		return (*f)(ctx)
	})
}

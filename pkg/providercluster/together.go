// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providercluster

import (
	"cmp"
	"sync"
)

// together runs steps that do not need each other at the same time, so that a distant provider cluster delays a call by
// one round trip instead of several. It waits for all of them, and returns the error of the first in their order. A panic
// continues in the caller, which may recover: the driver over gRPC serves many shoots.
func together(steps ...func() error) error {
	var running sync.WaitGroup

	errs := make([]error, len(steps))
	panics := make([]any, len(steps))

	for i, step := range steps {
		running.Go(func() {
			defer func() { panics[i] = recover() }()

			errs[i] = step()
		})
	}

	running.Wait()

	for _, p := range panics {
		if p != nil {
			panic(p)
		}
	}

	return cmp.Or(errs...)
}

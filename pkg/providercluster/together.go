// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providercluster

import (
	"cmp"
	"runtime/debug"
	"sync"

	"k8s.io/klog/v2"
)

// together runs steps that do not need each other at the same time, so that a distant provider cluster delays a call by
// one round trip instead of several. It waits for all of them, and returns the error of the first in their order. A panic
// continues in the caller, which may recover: the driver over gRPC serves many shoots. The step's own stack is only in the
// log, and not what it panicked with, which may contain secrets.
func together(steps ...func() error) error {
	var running sync.WaitGroup

	errs := make([]error, len(steps))
	panics := make([]any, len(steps))

	for i, step := range steps {
		running.Go(func() {
			defer func() {
				if panics[i] = recover(); panics[i] != nil {
					klog.Background().Error(nil, "A step of a call panicked", "stack", string(debug.Stack()))
				}
			}()

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

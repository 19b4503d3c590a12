// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package kubevirt

import (
	"context"
	"sync"
)

// calls tracks the ongoing calls, to cancel them on shutdown: machine-controller-manager's contexts
// are never cancelled.
type calls struct {
	mu      sync.Mutex
	ended   bool
	running map[*call]struct{}
}

type call struct {
	cancel context.CancelFunc
	done   chan struct{}
}

func newCalls() *calls {
	return &calls{running: map[*call]struct{}{}}
}

// begin returns the context of a new call, and the function to run when the call ends. After end,
// the contexts of new calls are already cancelled, and no call returns: until the process exits,
// machine-controller-manager would have time to write the failure to the Machine.
func (c *calls) begin(outer context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(outer)
	begun := &call{cancel: cancel, done: make(chan struct{})}

	c.mu.Lock()
	defer c.mu.Unlock()

	if c.ended {
		cancel()
	}

	c.running[begun] = struct{}{}

	return ctx, func() {
		if c.finish(begun) {
			<-outer.Done() // machine-controller-manager's contexts are never done.
		}
	}
}

// finish ends a call, and reports whether the process is about to be terminated.
func (c *calls) finish(ended *call) bool {
	c.mu.Lock()
	defer c.mu.Unlock()

	ended.cancel()
	close(ended.done)
	delete(c.running, ended)

	return c.ended
}

// end cancels all calls, and waits until they have ended or ctx is done.
func (c *calls) end(ctx context.Context) {
	for _, running := range c.cancelAll() {
		select {
		case <-running.done:
		case <-ctx.Done():
			return
		}
	}
}

func (c *calls) cancelAll() []*call {
	c.mu.Lock()
	defer c.mu.Unlock()

	c.ended = true

	list := make([]*call, 0, len(c.running))
	for running := range c.running {
		running.cancel()
		list = append(list, running)
	}

	return list
}

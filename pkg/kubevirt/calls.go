package kubevirt

import (
	"context"
	"sync"
)

// calls are those that are under way. machine-controller-manager gives them contexts that never end.
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

// begin returns the context of a new call, and what its end must run. After end, every context is over from the start, and no call
// returns any more: machine-controller-manager would write its failure to the Machine, in the moment that is left to the process.
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
			<-outer.Done() // Never, for machine-controller-manager's contexts.
		}
	}
}

// finish says whether the process ends.
func (c *calls) finish(done *call) bool {
	c.mu.Lock()
	defer c.mu.Unlock()

	done.cancel()
	close(done.done)
	delete(c.running, done)

	return c.ended
}

// end cancels all calls, and waits until they have ended or ctx is over.
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

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

// begin returns the context of a new call, and what its end must run. After end, every context is over from the start.
func (c *calls) begin(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	begun := &call{cancel: cancel, done: make(chan struct{})}

	c.mu.Lock()
	defer c.mu.Unlock()

	if c.ended {
		cancel()
	}

	c.running[begun] = struct{}{}

	return ctx, func() { c.finish(begun) }
}

func (c *calls) finish(ended *call) {
	c.mu.Lock()
	defer c.mu.Unlock()

	ended.cancel()
	close(ended.done)
	delete(c.running, ended)
}

// end cancels all calls, and waits until they have returned or ctx is over.
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

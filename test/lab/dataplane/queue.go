// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"context"
	"log/slog"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

const (
	minRetryDelay = 20 * time.Millisecond
	maxRetryDelay = 10 * time.Second
)

// reconcileFunc reconciles one object. It returns when to reconcile again
// (zero: at the next event).
type reconcileFunc func(ctx context.Context, key string) (time.Duration, error)

// controller feeds the keys of one kind of object to a reconcileFunc.
type controller struct {
	name      string
	reconcile reconcileFunc
	queue     workqueue.TypedRateLimitingInterface[string]
	log       *slog.Logger
}

// newController returns a controller that is not running yet.
func newController(name string, log *slog.Logger, reconcile reconcileFunc) *controller {
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[string](minRetryDelay, maxRetryDelay)
	return &controller{
		name:      name,
		reconcile: reconcile,
		queue:     workqueue.NewTypedRateLimitingQueue(limiter),
		log:       log.With("part", name),
	}
}

// enqueue adds an object or its tombstone.
func (c *controller) enqueue(object any) {
	key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(object)
	if err != nil {
		c.log.Error("object without key", "error", err)
		return
	}
	c.queue.Add(key)
}

// run runs the workers until the context is done.
func (c *controller) run(ctx context.Context, workers int) {
	stop := context.AfterFunc(ctx, c.queue.ShutDown)
	defer stop()

	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for c.next(ctx) {
			}
		})
	}
	wg.Wait()
}

// next reconciles one key. It returns false when the queue is shut down.
func (c *controller) next(ctx context.Context) bool {
	key, ended := c.queue.Get()
	if ended {
		return false
	}
	defer c.queue.Done(key)

	after, err := c.reconcile(ctx, key)
	switch {
	case err != nil:
		// Conflicts and lost races are normal in a level-triggered controller: the
		// next attempt reads again.
		if ctx.Err() == nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			c.log.Warn("reconcile", "key", key, "error", err)
		}
		c.queue.AddRateLimited(key)
	case after > 0:
		c.queue.Forget(key)
		c.queue.AddAfter(key, after)
	default:
		c.queue.Forget(key)
	}
	return true
}

package cloudprovider

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// minPause and maxPause bound the time between two watches.
	minPause, maxPause = time.Second, time.Minute
	// forbiddenPause is the same if the account may not watch: Services are then refreshed only when they
	// change.
	forbiddenPause = 5 * time.Minute
	// localInterval is how often the refresher looks for the first Service with the policy Local.
	localInterval = 5 * time.Second
	// maxLaunchers bounds the pods whose last state is known. Events of others always refresh Services.
	maxLaunchers = 5000
)

// follow passes the objects of a kind in the namespace of the provider cluster on, at first all of them, and then
// those that change. Nothing of them stays in memory: a watch without a resource version begins with all
// objects, and is repeated when it ends, some minutes later.
func follow[O client.Object](ctx context.Context, r *refresher, list client.ObjectList, selected labels.Set, changed func(object O, deleted bool)) {
	for pause := minPause; ctx.Err() == nil; {
		events, err := followOnce(ctx, r, list, selected, changed)

		switch {
		case events:
			pause = minPause
		case apierrors.IsForbidden(err):
			pause = forbiddenPause
		default:
			pause = min(2*pause, maxPause)
		}

		if err != nil && ctx.Err() == nil {
			klog.ErrorS(explain(err), "Failed to watch the provider cluster; trying again", "kind", fmt.Sprintf("%T", list), "in", pause)
		}

		select {
		case <-ctx.Done():
		case <-time.After(wait.Jitter(pause, 1)):
		}
	}
}

// followOnce is one watch. It reports whether it received an event.
func followOnce[O client.Object](
	ctx context.Context, r *refresher, list client.ObjectList, selected labels.Set, changed func(object O, deleted bool),
) (received bool, _ error) {
	provider := r.balancers.provider

	events, err := provider.Watch(ctx, list, client.InNamespace(provider.Namespace), client.MatchingLabels(selected))
	if err != nil {
		return false, err
	}
	defer events.Stop()

	for {
		select {
		case <-ctx.Done():
			return received, nil
		case event, open := <-events.ResultChan():
			object, ok := event.Object.(O)
			if !open || !ok { // An error, which the next watch has, too, unless it passes.
				return received, nil
			}

			received = true

			changed(object, event.Type == watch.Deleted)
		}
	}
}

// followLaunchers refreshes the Services with the policy Local when a machine begins to run on another provider
// node, or with another address. Without such a Service, it sends no request.
func (r *refresher) followLaunchers(ctx context.Context) {
	if err := wait.PollUntilContextCancel(ctx, localInterval, true, func(context.Context) (bool, error) {
		return len(r.local()) > 0, nil
	}); err != nil {
		return
	}

	known := map[types.UID]launcher{}

	follow(ctx, r, &corev1.PodList{}, r.balancers.machineLabels(), func(pod *corev1.Pod, deleted bool) {
		current := launcherOf(pod)
		last, found := known[pod.UID]

		switch {
		case deleted:
			delete(known, pod.UID)
		case found || len(known) < maxLaunchers:
			known[pod.UID] = current
		}

		if deleted || !found || !slices.Equal(last.ips, current.ips) || last.host != current.host {
			for _, service := range r.local() {
				r.enqueue(service)
			}
		}
	})
}

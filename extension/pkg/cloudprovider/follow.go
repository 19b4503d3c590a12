// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package cloudprovider

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// pause is the least time between two watches.
	pause = 5 * time.Second
	// localInterval is how often the refresher looks for the first Service with the policy Local.
	localInterval = time.Second
)

// follow passes the objects of a kind in the namespace of the provider cluster on, at first all of them, and then
// those that change. Nothing of them stays in memory: a watch without a resource version begins with all
// objects, and is repeated when it ends, some minutes later. If the account may not watch, Services are refreshed
// only when they change.
func follow[O client.Object](ctx context.Context, r *refresher, list client.ObjectList, selected labels.Set, changed func(object O, deleted bool)) {
	provider := r.balancers.provider

	wait.JitterUntilWithContext(ctx, func(ctx context.Context) {
		events, err := provider.Watch(ctx, list, client.InNamespace(provider.Namespace), client.MatchingLabels(selected))
		if err != nil {
			klog.ErrorS(explain(err), "Failed to watch the provider cluster; trying again", "kind", fmt.Sprintf("%T", list))

			return
		}
		defer events.Stop()

		for event := range events.ResultChan() { // It ends with ctx.
			object, ok := event.Object.(O)
			if !ok {
				return // An error, which the next watch has, too, unless it passes.
			}

			changed(object, event.Type == watch.Deleted)
		}
	}, pause, 1, true)
}

// followLaunchers refreshes the Services with the policy Local when the pod of a machine changes: it begins to run, on
// another provider node, or with another address. Without such a Service, it sends no request.
func (r *refresher) followLaunchers(ctx context.Context) {
	if err := wait.PollUntilContextCancel(ctx, localInterval, true, func(context.Context) (bool, error) {
		return len(r.local()) > 0, nil
	}); err != nil {
		return
	}

	follow(ctx, r, &corev1.PodList{}, r.balancers.machineLabels(), func(*corev1.Pod, bool) {
		for _, service := range r.local() {
			r.enqueue(service, settle)
		}
	})
}

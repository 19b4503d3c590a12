// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providerapi

import (
	"context"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi/pages"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi/transport"
)

// Watcher is a typed client that watches one kind of object.
type Watcher interface {
	Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error)
}

// WatchObject starts to watch an object from its resource version, or from its current state if it has
// none. Its errors are those of Once. It asks the server to end the watch within the last second before the context does,
// since a connection whose watch the client ends cannot be used again.
func (o Objects[O, L]) WatchObject(ctx context.Context, object metav1.ObjectMeta) (watch.Interface, error) {
	opts := metav1.SingleObject(object)

	if end, limited := ctx.Deadline(); limited {
		if seconds := int64(time.Until(end) / time.Second); seconds > 0 {
			opts.TimeoutSeconds = &seconds
		}
	}

	return o.watch(ctx, opts)
}

// watch starts a watch whose events are safe to pass to client-go.
func (o Objects[O, L]) watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	begun, err := o.client.Watch(ctx, opts)
	if err != nil {
		return nil, err
	}

	return filtered(begun, plainEvent[O]), nil
}

// AwaitDeletion waits until an object that was read is deleted. It resumes a watch that ends, until
// the context ends, whose error is returned unchanged. If the resource version has expired, as
// after a restart of the server, the object is read again.
func (o Objects[O, L]) AwaitDeletion(ctx context.Context, object O) error {
	version := object.GetResourceVersion()

	return wait.PollUntilContextCancel(ctx, rewatchInterval, true, func(ctx context.Context) (bool, error) {
		err := o.untilDeleted(ctx, object.GetName(), version)
		if !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
			return err == nil, err
		}

		version, err = o.currentVersion(ctx, object)

		return version == "", err
	})
}

// currentVersion returns the resource version of an object; empty if the object is gone.
func (o Objects[O, L]) currentVersion(ctx context.Context, object O) (string, error) {
	var none O

	now, err := o.Get(ctx, object.GetName())
	if err != nil || now == none || now.GetUID() != object.GetUID() {
		return "", err
	}

	return now.GetResourceVersion(), nil
}

// untilDeleted watches one object from a resource version at which it existed until it is deleted.
// Its error shows whether the resource version has expired.
func (o Objects[O, L]) untilDeleted(ctx context.Context, name, version string) error {
	source := &cache.ListWatch{WatchFuncWithContext: func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
		opts.FieldSelector = metav1.SingleObject(metav1.ObjectMeta{Name: name}).FieldSelector

		return o.watch(ctx, opts)
	}}

	_, err := watchtools.Until(ctx, version, source, func(event watch.Event) (bool, error) {
		if event.Type == watch.Error {
			return false, apierrors.FromObject(event.Object)
		}

		return event.Type == watch.Deleted, nil
	})
	if err == nil || wait.Interrupted(err) {
		return err
	}

	return explained("watch "+o.path(name), err)
}

// plainEvent returns an event that is safe to pass to client-go. It shortens the error that ends a
// watch, and removes the retry delay that client-go would wait for. It replaces an error that is
// not a metav1.Status, and an object of another type or without a resource version: client-go would log
// them in full, and each of them.
func plainEvent[O Object](event watch.Event) watch.Event {
	if event.Type == watch.Error {
		status, ok := event.Object.(*metav1.Status)
		if !ok {
			return unreadable()
		}

		event.Object = plainStatus(status)

		return event
	}

	if object, ok := event.Object.(O); !ok || object.GetResourceVersion() == "" || pages.Check(object) != nil {
		return unreadable()
	}

	return event
}

// unreadable returns the event that ends a watch whose events cannot be read.
func unreadable() watch.Event {
	return watch.Event{
		Type: watch.Error,
		Object: &metav1.Status{
			Status:  metav1.StatusFailure,
			Code:    http.StatusInternalServerError,
			Reason:  metav1.StatusReasonInternalError,
			Message: unreadableEvent,
		},
	}
}

const unreadableEvent = "an event of the watch cannot be read"

// plainStatus shortens a Status. It also hides the parts of an undecodable response that
// client-go's own errors quote.
func plainStatus(status *metav1.Status) runtime.Object {
	status = transport.Shortened(status)

	if apierrors.HasStatusCause(&apierrors.StatusError{ErrStatus: *status}, metav1.CauseTypeUnexpectedServerResponse) ||
		apierrors.HasStatusCause(&apierrors.StatusError{ErrStatus: *status}, clientDecoding) {
		status.Message = unreadableEvent
		status.Details = nil
	}

	return status
}

// clientDecoding is the cause that client-go sets for events that cannot be decoded
// (rest.Request.Watch).
const clientDecoding metav1.CauseType = "ClientWatchDecoding"

// filtered returns a watch that applies change to the events of source. Unlike apimachinery's filter, it
// ends when it is stopped, even if its last event is never received.
func filtered(source watch.Interface, change func(watch.Event) watch.Event) watch.Interface {
	events := make(chan watch.Event)
	ended := make(chan struct{})
	changed := watch.NewProxyWatcher(events)

	go func() {
		defer source.Stop()

		select {
		case <-changed.StopChan():
		case <-ended:
		}
	}()

	go func() {
		defer close(ended)
		defer close(events)

		for event := range source.ResultChan() {
			select {
			case events <- change(event):
			case <-changed.StopChan():
				return
			}
		}
	}()

	return changed
}

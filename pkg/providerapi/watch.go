package providerapi

import (
	"context"
	"net/http"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

// Watcher is a typed client of one kind of objects.
type Watcher interface {
	Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error)
}

// Watch begins to watch one object, from the version at which it was seen; without one, from whatever is there now. Its errors are those
// of Once.
func Watch(ctx context.Context, from Watcher, object metav1.ObjectMeta) (watch.Interface, error) {
	return from.Watch(ctx, metav1.SingleObject(object))
}

// UntilDeleted waits for the end of one object, from a version at which it was there. A watch that ends is begun again where it was, for as
// long as the context lasts, whose end is returned as it is. Any other error says what was watched, and wraps a sentinel of the package spi.
// Whether a server no longer knows the version, it still says.
func UntilDeleted(ctx context.Context, from Watcher, what, name, version string) error {
	source := &cache.ListWatch{WatchFuncWithContext: func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
		opts.FieldSelector = metav1.SingleObject(metav1.ObjectMeta{Name: name}).FieldSelector

		begun, err := from.Watch(ctx, opts)
		if err != nil {
			return nil, err
		}

		return filtered(begun, plainEvent), nil
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

	return explained("watch "+what, err)
}

// plainEvent returns an event as client-go may see it. It shortens the error that a watch ends with, and removes the delay that it asks for:
// client-go sleeps as long. It replaces an error that is no metav1.Status, and an object without a version: client-go would log them whole.
func plainEvent(event watch.Event) watch.Event {
	if event.Type == watch.Error {
		status, ok := event.Object.(*metav1.Status)
		if !ok {
			return unreadable()
		}

		event.Object = plainStatus(status)

		return event
	}

	if object, err := meta.Accessor(event.Object); err != nil || object.GetResourceVersion() == "" {
		return unreadable()
	}

	return event
}

// unreadable is the end of a watch whose events make no sense.
func unreadable() watch.Event {
	return watch.Event{Type: watch.Error, Object: &metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError, Message: unreadableEvent,
	}}
}

const unreadableEvent = "an event of the watch cannot be read"

// plainStatus also hides what client-go's own errors quote of an answer that cannot be decoded.
func plainStatus(status *metav1.Status) runtime.Object {
	status = shortened(status)

	if apierrors.HasStatusCause(&apierrors.StatusError{ErrStatus: *status}, metav1.CauseTypeUnexpectedServerResponse) ||
		apierrors.HasStatusCause(&apierrors.StatusError{ErrStatus: *status}, clientDecoding) {
		status.Message, status.Details = unreadableEvent, nil
	}

	return status
}

// clientDecoding is the cause of errors that client-go makes of events that cannot be decoded (rest.Request.Watch).
const clientDecoding metav1.CauseType = "ClientWatchDecoding"

// filtered changes the events of a watch.
func filtered(source watch.Interface, change func(watch.Event) watch.Event) watch.Interface {
	f := &filter{source: source, events: make(chan watch.Event), stopped: make(chan struct{})}

	go f.run(change)

	return f
}

// filter is a watch whose events are changed. Unlike that of apimachinery it ends when it is stopped, also if nobody takes its last event.
type filter struct {
	source  watch.Interface
	events  chan watch.Event
	stop    sync.Once
	stopped chan struct{}
}

func (f *filter) run(change func(watch.Event) watch.Event) {
	defer close(f.events)

	for event := range f.source.ResultChan() {
		select {
		case f.events <- change(event):
		case <-f.stopped:
			return
		}
	}
}

// ResultChan implements watch.Interface.
func (f *filter) ResultChan() <-chan watch.Event { return f.events }

// Stop implements watch.Interface.
func (f *filter) Stop() {
	f.stop.Do(func() {
		close(f.stopped)
		f.source.Stop()
	})
}

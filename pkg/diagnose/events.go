// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// eventsAge is the maximum age of an event's last occurrence. Kubelet retries a mount after two
// minutes at most, and an image pull after five; the scheduler looks at a pod without room again after five.
const eventsAge = 6 * time.Minute

// occurrences are the events of one object and reason, whatever their messages: kubelet puts a new
// identifier into every attempt.
type occurrences struct {
	sign

	count int32
}

// ofEvents selects the warnings that are current: unlike a condition, an event remains after its problem
// is solved.
func (e *Evidence) ofEvents(now time.Time) []sign {
	var signs []sign

	for _, o := range grouped(e.Events) {
		if o.isCurrent(now) {
			if e.isRetried(&o.sign) {
				o.from = retried
			}

			if o.from == copyScheduler {
				o.message = withoutPreemption(o.message)
			}

			signs = append(signs, o.sign)
		}
	}

	return signs
}

// isRetried reports whether a later attempt has succeeded, or is in progress: an importer runs, a pod
// has a node, or virt-handler has started the guest.
func (e *Evidence) isRetried(event *sign) bool {
	switch event.reason {
	case importFailed:
		return e.isImporting(e.filledFor(event.object.Name))
	case failedScheduling:
		return event.from == copyScheduler && e.isScheduled(event.object.Name)
	case syncFailed:
		return event.from == instanceEvent && e.Instance != nil && e.Instance.Status.Phase != kubevirtv1.Scheduled
	default:
		return false
	}
}

// isCurrent reports whether the warning has occurred recently, and more than once. The scheduler tries again
// only after five minutes, and one warning tells until the pod has a node.
func (o *occurrences) isCurrent(now time.Time) bool {
	return now.Sub(o.last) < eventsAge && (o.count > 1 || o.from == copyScheduler)
}

func grouped(events []corev1.Event) []*occurrences {
	type key struct {
		kind, name, reason string
	}

	var groups []*occurrences

	known := map[key]*occurrences{}

	for i := range events {
		event := &events[i]
		if event.Type != corev1.EventTypeWarning {
			continue
		}

		k := key{event.InvolvedObject.Kind, event.InvolvedObject.Name, event.Reason}
		if known[k] == nil {
			known[k] = &occurrences{sign: signOf(event)}
			groups = append(groups, known[k])
		}

		known[k].add(event)
	}

	return groups
}

func signOf(event *corev1.Event) sign {
	about := &event.InvolvedObject
	s := sign{
		from:   podEvent,
		reason: event.Reason,
		object: spi.ObjectName{Kind: about.Kind, Namespace: about.Namespace, Name: about.Name},
		kind:   "Event",
		status: event.Type,
	}

	switch {
	case about.Kind == kindInstance:
		s.from = instanceEvent
	case about.Kind != "Pod":
		s.from = volumeEvent
		s.subject = about.Kind + " " + about.Name
	case strings.HasPrefix(about.Name, importerPrefix):
		s.subject = about.Kind + " " + about.Name
	case isCopyPod(about.Name):
		s.subject = about.Kind + " " + about.Name

		if event.Reason == failedScheduling {
			s.from = copyScheduler
		}
	}

	return s
}

// add keeps the first time and the latest message.
func (o *occurrences) add(event *corev1.Event) {
	first, last := times(event)

	if o.since.IsZero() || first.Before(o.since) {
		o.since = first
	}

	if !last.Before(o.last) {
		o.last = last
		o.message = event.Message
	}

	switch {
	case event.Series != nil:
		o.count += event.Series.Count
	case event.Count > 0:
		o.count += event.Count
	default:
		o.count++
	}
}

// times returns when an event occurred first and last. The two generations of the
// events API use different fields.
func times(event *corev1.Event) (first, last time.Time) {
	for _, t := range []time.Time{event.FirstTimestamp.Time, event.EventTime.Time, event.CreationTimestamp.Time} {
		if !t.IsZero() {
			first = t

			break
		}
	}

	last = latest(first, event.LastTimestamp.Time)
	if event.Series != nil {
		last = latest(last, event.Series.LastObservedTime.Time)
	}

	return first, last
}

package evacuation

import (
	"errors"
	"strings"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// story is what has been reported about an evacuation. A restart
// loses it, at the cost of a repeated Event.
type story struct {
	machine *v1alpha1.Machine // nil if there is none
	node    string
	since   time.Time
	reason  string
	message string
	end     outcome   // the outcome if the evacuation ends now
	waits   time.Time // since when it waits without progress in its pool; zero if it does not wait
	refused time.Time // since when its migration has been rejected; zero if it has not been
}

// chapter is the report of a step.
type chapter struct {
	reason  string
	text    string
	warning bool
	end     outcome
}

var chapters = map[action]chapter{
	passOver:     {reason: "EvacuationPassedOver", text: "is left alone", end: cancelled},
	await:        {reason: "EvacuationWaiting", text: "waits", end: cancelled},
	migrate:      {reason: "EvacuationMigrating", text: "is live-migrated", end: migrated},
	moving:       {reason: "EvacuationMigrating", text: "is live-migrated", end: migrated},
	replace:      {reason: "EvacuationReplacing", text: "is replaced", end: replaced},
	leaving:      {reason: "EvacuationReplacing", text: "is replaced", end: replaced},
	endMigration: {reason: "EvacuationReplacing", text: "is replaced", end: replaced},
	powerOff:     {reason: "EvacuationDeadline", text: "is powered off, whatever still runs on it", warning: true, end: poweredOff},
}

// evacuationFailed is the reason if a step failed. It is retried.
const evacuationFailed = "EvacuationFailed"

// report reports a step that was performed.
func (c *Controller) report(s *site, next *step) {
	if known := s.stories[next.evacuation.UID]; next.do == passOver && known != nil {
		return // Its Machine has just gone, and the evacuation is about to end.
	}

	how := chapters[next.do]

	known := c.tell(s, next, how.reason, how.text+": "+next.why)
	known.end, known.waits = how.end, next.waits

	if next.do == migrate {
		known.refused = time.Time{}
	}
}

// reportFailure reports a step that failed.
func (c *Controller) reportFailure(s *site, next *step, err error) {
	known := c.tell(s, next, evacuationFailed, "cannot be helped: "+err.Error())

	if errors.As(err, &refusedError{}) && known.refused.IsZero() {
		known.refused = c.options.Clock.Now()
	}
}

// tell records an Event and writes to the log, unless the last report of this evacuation was the
// same. An ongoing step is reported once per reason.
func (c *Controller) tell(s *site, next *step, reason, message string) *story {
	known := s.stories[next.evacuation.UID]
	if known == nil {
		known = &story{since: c.options.Clock.Now(), node: next.evacuation.Node, end: cancelled}
		s.stories[next.evacuation.UID] = known
	}

	if !next.evacuation.Since.IsZero() {
		known.since = next.evacuation.Since
	}

	underway := next.do == moving || next.do == leaving || next.do == endMigration
	if known.reason == reason && (underway || known.message == message) {
		return known
	}

	known.machine, known.reason, known.message = next.machine, reason, message
	c.record(next.machine, next.evacuation.Machine, chapters[next.do].warning || reason == evacuationFailed, reason,
		"To leave provider node "+next.evacuation.Node+", the machine "+message)

	return known
}

// maxMessage bounds an Event's message, in bytes: an API server rejects more than 1024, and part of
// the message comes from the provider cluster.
const maxMessage = 1000

func (c *Controller) record(machine *v1alpha1.Machine, name string, warning bool, reason, message string) {
	if len(message) > maxMessage {
		message = strings.ToValidUTF8(message[:maxMessage], "") + " …"
	}

	klog.InfoS(message, "machine", name, "reason", reason)

	eventType := corev1.EventTypeNormal
	if warning {
		eventType = corev1.EventTypeWarning
	}

	if machine != nil {
		c.options.Events.Event(machine, eventType, reason, message)
	}
}

// conclude ends the stories of machines whose evacuation is over.
func (c *Controller) conclude(s *site, list []spi.Evacuation) {
	open := map[types.UID]bool{}
	for i := range list {
		open[list[i].UID] = true
	}

	for uid, known := range s.stories {
		if open[uid] {
			continue
		}

		delete(s.stories, uid)

		if known.machine == nil {
			continue
		}

		after := c.options.Clock.Since(known.since)
		c.metrics.end(known.end, after)
		c.record(known.machine, known.machine.Name, false, "EvacuationEnded",
			"To leave provider node "+known.node+" has taken the machine "+after.Round(time.Second).String()+": "+string(known.end))
	}
}

// countWaiting sets the metrics for the number of waiting
// machines at all sites and for the longest wait.
func (c *Controller) countWaiting() {
	waiting, longest := 0, time.Duration(0)

	for _, s := range c.sites {
		for _, known := range s.stories {
			if !known.waits.IsZero() {
				waiting++
				longest = max(longest, c.options.Clock.Since(known.waits))
			}
		}
	}

	c.metrics.waiting.Set(float64(waiting))
	c.metrics.longest.Set(longest.Seconds())
}

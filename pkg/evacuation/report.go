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

// story is what has been told of an evacuation. A restart begins it anew, at the cost of an Event that comes twice.
type story struct {
	machine *v1alpha1.Machine // nil if there is none
	node    string
	since   time.Time
	reason  string
	message string
	end     outcome   // what it is if the evacuation ends now
	waits   time.Time // since when nothing has moved in its pool while it waits; zero if it does not wait
	refused time.Time // since when its migration has been refused; zero if it has not been
}

// chapter is how a step is told.
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

// evacuationFailed is the reason when a step could not be taken. It is tried again.
const evacuationFailed = "EvacuationFailed"

// report tells of a step that was taken.
func (c *Controller) report(s *site, next *step) {
	if known := s.stories[next.evacuation.UID]; next.do == passOver && known != nil {
		return // Its Machine has just gone: the end of the story is near.
	}

	how := chapters[next.do]

	known := c.tell(s, next, how.reason, how.text+": "+next.why)
	known.end, known.waits = how.end, next.waits

	if next.do == migrate {
		known.refused = time.Time{}
	}
}

// reportFailure tells of a step that could not be taken.
func (c *Controller) reportFailure(s *site, next *step, err error) {
	known := c.tell(s, next, evacuationFailed, "cannot be helped: "+err.Error())

	if errors.As(err, &refusedError{}) && known.refused.IsZero() {
		known.refused = c.options.Clock.Now()
	}
}

// tell records an Event and writes to the log, unless the last of this evacuation said the same. What is under way is told once, by
// its reason.
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

// maxMessage bounds an Event's message, in bytes: an API server refuses more than 1024, and a part of it is the provider cluster's.
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

// conclude ends the stories of machines that are no longer to leave.
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

// countWaiting shows how many machines wait, at all sites, and how long the one that has waited the longest has.
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

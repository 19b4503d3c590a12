// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package evacuation

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// evacuationRecord is the last report of an ongoing evacuation, and the times that neither cluster
// stores. A restart loses it and repeats an Event. With KubeVirt 1.6, which does not record when an
// evacuation was requested, a restart also restarts the deadline.
type evacuationRecord struct {
	machine       *v1alpha1.Machine // nil if there is none
	node          string
	requestedAt   time.Time // the time of the first report if the provider cluster records none
	eventReason   string
	message       string
	outcome       outcome   // the outcome if the evacuation ends now
	waitingSince  time.Time // when the wait without progress in its pool began; zero if it does not wait
	rejectedSince time.Time // when its migration was first rejected; zero if it was not
	rejectedAt    time.Time // when its migration was last rejected
}

// stepReport describes the Event of a step.
type stepReport struct {
	eventReason string
	// format is the beginning of the message; its argument is the provider node.
	format  string
	warning bool
	outcome outcome
}

var (
	migrationReport = stepReport{
		eventReason: "EvacuationMigrating",
		format:      "Live-migrating the machine away from provider node %s",
		outcome:     migrated,
	}
	replacementReport = stepReport{
		eventReason: "EvacuationReplacing",
		format:      "Replacing the machine to evacuate it from provider node %s",
		outcome:     replaced,
	}
	stepReports = map[action]stepReport{
		skip:            {eventReason: "EvacuationSkipped", format: "Skipping the evacuation from provider node %s", outcome: cancelled},
		wait:            {eventReason: "EvacuationWaiting", format: "Waiting to evacuate the machine from provider node %s", outcome: cancelled},
		migrate:         migrationReport,
		migrating:       migrationReport,
		replace:         replacementReport,
		replacing:       replacementReport,
		cancelMigration: replacementReport,
		powerOff: {
			eventReason: "EvacuationDeadline",
			format:      "Powering off the machine on provider node %s",
			warning:     true,
			outcome:     poweredOff,
		},
	}
)

// evacuationFailed is the Event's reason if a step failed. The step is retried.
const evacuationFailed = "EvacuationFailed"

// message returns the text of a report. The reason comes last, because it may contain text from the
// provider cluster.
func (r stepReport) message(s *step) string {
	message := fmt.Sprintf(r.format, s.evacuation.Node)
	if s.reason != "" {
		message += ": " + s.reason
	}

	return message
}

// reportStep reports a step that was performed.
func (c *Controller) reportStep(target *watchTarget, s *step) {
	if target.records[s.evacuation.UID] != nil && s.action == skip {
		return // The Machine is gone since the last step, and the evacuation is about to end.
	}

	report := stepReports[s.action]

	record := c.record(target, s, report.eventReason, report.message(s))
	record.outcome = report.outcome
	record.waitingSince = s.waitingSince

	if s.action == migrate {
		record.rejectedSince = time.Time{}
	}
}

// reportFailure reports a step that failed.
func (c *Controller) reportFailure(target *watchTarget, s *step, err error) {
	record := c.record(target, s, evacuationFailed, "Failed to evacuate machine from provider node "+s.evacuation.Node+": "+err.Error())

	if !errors.As(err, &rejectedError{}) {
		return
	}

	record.rejectedAt = c.options.Clock.Now()
	if record.rejectedSince.IsZero() {
		record.rejectedSince = record.rejectedAt
	}
}

// record updates the record of an evacuation. It records an Event and writes to the log, unless
// that would repeat the last report. An ongoing step is reported once per Event reason.
func (c *Controller) record(target *watchTarget, s *step, eventReason, message string) *evacuationRecord {
	record := target.records[s.evacuation.UID]
	if record == nil {
		record = &evacuationRecord{requestedAt: c.options.Clock.Now(), node: s.evacuation.Node, outcome: cancelled}
		target.records[s.evacuation.UID] = record
	}

	if !s.evacuation.RequestedAt.IsZero() {
		record.requestedAt = s.evacuation.RequestedAt
	}

	if record.waitsForAttempt(s) {
		return record // The rejection was reported.
	}

	ongoing := s.action == migrating || s.action == replacing || s.action == cancelMigration
	if record.eventReason == eventReason && (ongoing || record.message == message) {
		return record
	}

	record.machine = s.machine
	record.eventReason = eventReason
	record.message = message
	c.recordEvent(s.machine, s.evacuation.Machine, stepReports[s.action].warning || eventReason == evacuationFailed, eventReason, message)

	return record
}

// waitsForAttempt reports whether a machine waits until its rejected migration is tried again.
func (r *evacuationRecord) waitsForAttempt(s *step) bool {
	return s.action == wait && !r.rejectedSince.IsZero() && s.evacuation.Migratable
}

// maxMessage bounds an Event's message, in bytes: an API server rejects more than 1024, and part of
// the message comes from the provider cluster.
const maxMessage = 1000

// recordEvent records an Event on the Machine, if there is one, and writes it to the log.
func (c *Controller) recordEvent(machine *v1alpha1.Machine, name string, warning bool, reason, message string) {
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

// finish reports the evacuations that have ended, and deletes their records.
func (c *Controller) finish(target *watchTarget, list []spi.Evacuation) {
	ongoing := map[types.UID]bool{}
	for i := range list {
		ongoing[list[i].UID] = true
	}

	for uid, record := range target.records {
		if ongoing[uid] {
			continue
		}

		delete(target.records, uid)

		if record.machine == nil {
			continue
		}

		duration := c.options.Clock.Since(record.requestedAt)
		c.metrics.observe(record.outcome, duration)
		c.recordEvent(record.machine, record.machine.Name, false, "EvacuationEnded",
			fmt.Sprintf("Evacuation from provider node %s ended after %s: %s", record.node, duration.Round(time.Second), record.outcome))
	}
}

// updateWaiting sets the metrics for the number of waiting
// machines of all targets and for the longest wait.
func (c *Controller) updateWaiting() {
	waiting := 0
	longest := time.Duration(0)

	for _, target := range c.targets {
		for _, record := range target.records {
			if !record.waitingSince.IsZero() {
				waiting++
				longest = max(longest, c.options.Clock.Since(record.waitingSince))
			}
		}
	}

	c.metrics.waiting.Set(float64(waiting))
	c.metrics.longest.Set(longest.Seconds())
}

// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"k8s.io/utils/ptr"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// symptom is one row of the table: it maps signs to a cause.
type symptom struct {
	reason string
	kind   error
	// grace is how long the sign must have lasted.
	grace func(GracePeriods) time.Duration
	// remedy is the action to take. The placeholder place is replaced with the region and the zone, and
	// the placeholder command with the sign's command.
	remedy string

	// from are the origins of the signs that are considered; empty means all.
	from []origin
	// condition is the type of the sign's condition; empty means any.
	condition string
	// reasons are the sign's possible reasons; empty means any. except are those with which it has
	// another meaning. CDI joins the reasons of a clone's receiver and sender: one that is possible
	// suffices, and all must be excepted.
	reasons, except []string
	// texts are phrases in lower case, one of which the sign's message must contain; empty means
	// any message. They are whole phrases: a single word may be the name of an object.
	texts []string
	// pattern, if set, must match the sign's message.
	pattern *regexp.Regexp
	// lacking, if set, selects the resource that all nodes must lack,
	// by the scheduler's name for it.
	lacking func(resource string) bool
	// unless are phrases with which a sign has another meaning.
	unless []string
}

func none(GracePeriods) time.Duration          { return 0 }
func refusal(g GracePeriods) time.Duration     { return g.Refusal }
func retry(g GracePeriods) time.Duration       { return g.Retry }
func obstruction(g GracePeriods) time.Duration { return g.Obstruction }
func start(g GracePeriods) time.Duration       { return g.Start }

const (
	// place is the placeholder for the machine's region and zone in a remedy.
	place = "{place}"
	// command is the placeholder for the command that belongs to the sign.
	command = "{command}"
)

// find returns the symptom's cause if a sign matches: of several signs, the
// one that can be reported first.
func (s *symptom) find(signs []sign, in Topology, now time.Time, grace GracePeriods) *spi.Cause {
	var first *spi.Cause

	for i := range signs {
		if !s.matches(&signs[i]) {
			continue
		}

		at := signs[i].reportableAt(now, s.grace(grace))
		if first == nil || at.Before(first.ReportableAt) {
			first = &spi.Cause{Err: s.failure(&signs[i], in), Since: signs[i].since, ReportableAt: at, Sign: ptr.To(signs[i].shown())}
		}
	}

	return first
}

// failure returns the symptom as an error with the component's own message.
func (s *symptom) failure(seen *sign, in Topology) *spi.Error {
	remedy := strings.NewReplacer(place, in.String(), command, seen.command).Replace(s.remedy)

	return &spi.Error{Kind: s.kind, Reason: s.reason, Message: message(seen), Remedy: remedy}
}

// reportableAt returns when a sign will have lasted for its grace period. A sign that is no longer
// reported must have been reported for that long: the time since then does not count.
func (s *sign) reportableAt(now time.Time, grace time.Duration) time.Time {
	at := s.since.Add(grace)
	if s.last.IsZero() || !at.After(s.last) {
		return at
	}

	return at.Add(now.Sub(s.last))
}

func (s *symptom) matches(seen *sign) bool {
	return (len(s.from) == 0 || slices.Contains(s.from, seen.from)) && s.matchesReason(seen) && s.matchesMessage(seen)
}

func (s *symptom) matchesReason(seen *sign) bool {
	return (s.condition == "" || s.condition == seen.kind) &&
		(len(s.reasons) == 0 || seen.hasReason(s.reasons)) &&
		(len(s.except) == 0 || !seen.hasOnly(s.except))
}

func (s *symptom) matchesMessage(seen *sign) bool {
	return (len(s.texts) == 0 || seen.says(s.texts)) &&
		(s.pattern == nil || s.pattern.MatchString(seen.words)) &&
		(s.lacking == nil || placementOf(seen.message).lacks(s.lacking)) &&
		!seen.says(s.unless)
}

// joined separates the reasons of the two pods of a clone (updateWithTargetNotRunning in CDI's
// pkg/controller/datavolume/conditions.go).
const joined = " and "

// hasReason reports whether one of the sign's reasons is listed.
func (s *sign) hasReason(listed []string) bool {
	return slices.ContainsFunc(strings.Split(s.reason, joined), func(reason string) bool { return slices.Contains(listed, reason) })
}

// hasOnly reports whether all of the sign's reasons are listed.
func (s *sign) hasOnly(listed []string) bool {
	return !slices.ContainsFunc(strings.Split(s.reason, joined), func(reason string) bool { return !slices.Contains(listed, reason) })
}

// message returns the component's own message, and the object that it is about.
func message(seen *sign) string {
	words := shortened(withoutCredentials(seen.message))
	if words == "" {
		words = seen.reason
	}

	if seen.subject != "" {
		words = seen.subject + ": " + words
	}

	return words
}

const maxWords = 450

// shortened truncates a long message.
func shortened(words string) string {
	words = strings.TrimRight(words, " .")

	if len(words) <= maxWords {
		return words
	}

	end := maxWords
	for end > 0 && !utf8.RuneStart(words[end]) {
		end--
	}

	return words[:end] + " …"
}

// Reasons returns the reason of every cause, sorted.
func Reasons() []string {
	var reasons []string
	for i := range table {
		reasons = append(reasons, table[i].reason)
	}

	slices.Sort(reasons)

	return slices.Compact(reasons)
}

// Kind returns the kind of the causes with this reason, or nil if there is no such reason.
func Kind(reason string) error {
	for i := range table {
		if table[i].reason == reason {
			return table[i].kind
		}
	}

	return nil
}

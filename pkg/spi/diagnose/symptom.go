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
	// remedy is the action to take. The placeholder place is replaced with the region and the zone.
	remedy string

	// from are the origins of the signs that are considered; empty means all.
	from []origin
	// reasons are the sign's possible reasons; empty means any.
	reasons []string
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

func refusal(g GracePeriods) time.Duration     { return g.Refusal }
func retry(g GracePeriods) time.Duration       { return g.Retry }
func obstruction(g GracePeriods) time.Duration { return g.Obstruction }

// place is the placeholder for the machine's region and zone in a remedy.
const place = "{place}"

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
	return &spi.Error{Kind: s.kind, Reason: s.reason, Message: message(seen), Remedy: strings.ReplaceAll(s.remedy, place, in.String())}
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
	return (len(s.from) == 0 || slices.Contains(s.from, seen.from)) &&
		(len(s.reasons) == 0 || slices.Contains(s.reasons, seen.reason)) &&
		(len(s.texts) == 0 || seen.says(s.texts)) &&
		(s.pattern == nil || s.pattern.MatchString(seen.words)) &&
		(s.lacking == nil || placementOf(seen.message).lacks(s.lacking)) &&
		!seen.says(s.unless)
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

package diagnose

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// symptom is one row of the table: it maps signs to a cause.
type symptom struct {
	reason string
	kind   error
	// stands is how long the sign must have lasted.
	stands func(Patience) time.Duration
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

func refusal(p Patience) time.Duration     { return p.Refusal }
func retry(p Patience) time.Duration       { return p.Retry }
func obstruction(p Patience) time.Duration { return p.Obstruction }

// place is the placeholder for the machine's region and zone in a remedy.
const place = "{place}"

// find returns the symptom's cause if a sign matches: of several signs, the
// one that can be reported first.
func (s *symptom) find(signs []sign, in Place, now time.Time, patience Patience) *Cause {
	var first *Cause

	remedy := strings.ReplaceAll(s.remedy, place, in.String())

	for i := range signs {
		if !s.matches(&signs[i]) {
			continue
		}

		ripe := signs[i].ripe(now, s.stands(patience))
		if first == nil || ripe.Before(first.Ripe) {
			first = &Cause{
				Reason: s.reason, Message: s.message(&signs[i], remedy), Remedy: remedy, Sign: signs[i].shown(),
				Since: signs[i].since, Ripe: ripe, kind: s.kind,
			}
		}
	}

	return first
}

// ripe returns when a sign will have lasted long enough. A sign that is no longer reported must
// have been reported for that long: the time since then does not count.
func (s *sign) ripe(now time.Time, stands time.Duration) time.Time {
	ripe := s.since.Add(stands)
	if s.last.IsZero() || !ripe.After(s.last) {
		return ripe
	}

	return ripe.Add(now.Sub(s.last))
}

func (s *symptom) matches(seen *sign) bool {
	return (len(s.from) == 0 || slices.Contains(s.from, seen.from)) &&
		(len(s.reasons) == 0 || slices.Contains(s.reasons, seen.reason)) &&
		(len(s.texts) == 0 || seen.says(s.texts)) &&
		(s.pattern == nil || s.pattern.MatchString(seen.words)) &&
		(s.lacking == nil || placementOf(seen.message).lacks(s.lacking)) &&
		!seen.says(s.unless)
}

// message puts the component's own message before the remedy.
func (s *symptom) message(seen *sign, remedy string) string {
	words := shortened(withoutCredentials(seen.message))
	if words == "" {
		words = seen.reason
	}

	if seen.subject != "" {
		words = seen.subject + ": " + words
	}

	return fmt.Sprintf("%s; %s", words, remedy)
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

// Reasons returns every reason that a Cause can have, sorted.
func Reasons() []string {
	var reasons []string
	for i := range table {
		reasons = append(reasons, table[i].reason)
	}

	slices.Sort(reasons)

	return slices.Compact(reasons)
}

// Kind returns the sentinel that causes of this reason wrap, or nil if there is no such reason.
func Kind(reason string) error {
	for i := range table {
		if table[i].reason == reason {
			return table[i].kind
		}
	}

	return nil
}

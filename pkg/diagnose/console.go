// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// Console is the log of a guest's serial console. The guest determines its content.
type Console struct {
	// Pod is the launcher pod with the log.
	Pod spi.ObjectName
	// Log has a line for each line on the console, which begins with its time, as kubelet writes it. Of a long log,
	// Log is the beginning, and End the end.
	Log, End string
	// ShowLines shows whole lines, which may contain secrets, instead of excerpts.
	ShowLines bool
}

// kindConsole is the kind of signs on the console, and statusPrinted their status.
const kindConsole, statusPrinted = "Console", "Printed"

// maxConsoleLine bounds a line of the console, in bytes. Longer lines are truncated.
const maxConsoleLine = 1024

// line is a printable line of a console.
type line struct {
	at   time.Time
	text string
	// words is the text in lower case.
	words string
}

// Silent reports whether the guest has printed nothing.
func (c *Console) Silent() bool {
	return c != nil && len(c.boots()) == 0
}

// ofConsole returns the signs of the guest's last boot that has any, and its last line. A sign began with the
// first of the boots in a row that have it: the guest may boot again and again.
func (e *Evidence) ofConsole(now time.Time) []sign {
	all := e.Console.boots()
	if len(all) == 0 {
		return nil
	}

	var signs []sign

	for _, b := range slices.Backward(all) {
		earlier := e.Console.ofBoot(&b, now)

		if len(signs) > 0 && !begunEarlier(signs, earlier) {
			break
		}

		if len(signs) == 0 {
			signs = earlier
		}
	}

	return append(signs, e.Console.lastLine(all))
}

// lastLine returns the sign of life of a guest.
func (c *Console) lastLine(all []boot) sign {
	lines := 0
	for _, b := range all {
		lines += len(b.lines)
	}

	last := all[len(all)-1].lines
	s := c.sign(&last[len(last)-1], "", fmt.Sprintf("the guest printed the last of the %d lines that were read", lines))

	if c.ShowLines {
		s.message = "the last line is: " + last[len(last)-1].text
	}

	return s
}

// begunEarlier sets the times of the signs that an earlier boot has, too, and reports whether there are any.
func begunEarlier(signs, earlier []sign) (found bool) {
	for i := range signs {
		for j := range earlier {
			if earlier[j].reason == signs[i].reason {
				signs[i].since = earlier[j].since
				found = true
			}
		}
	}

	return found
}

// ofBoot returns the signs of one boot of the guest, each with the time of its first line, and the text of
// its last one. It omits transient failures that are over.
func (c *Console) ofBoot(b *boot, now time.Time) []sign {
	var (
		signs []sign
		found []seen
	)

	for i := range consoleSigns {
		if f := b.find(&consoleSigns[i]); f != nil {
			found = append(found, *f)
		}
	}

	for _, f := range found {
		if f.row.transient && isOver(&f, found, now) {
			continue
		}

		last := *f.last
		last.at = f.first.at
		shown := last.text

		if !c.ShowLines {
			shown = excerpt(&last, f.row.line)
		}

		signs = append(signs, c.sign(&last, f.row.reason, f.row.meaning+"; its console shows: "+shown))
	}

	return signs
}

// seen is a sign with its first and its last line in a boot.
type seen struct {
	row         *consoleSign
	first, last *line
}

// find returns a sign of the boot, or nil.
func (b *boot) find(row *consoleSign) *seen {
	isOver := func(l line) bool { return row.over.MatchString(l.words) }
	if row.over != nil && (slices.ContainsFunc(b.lines, isOver) || slices.ContainsFunc(b.rest, isOver)) {
		return nil
	}

	var found *seen

	for i := range b.lines {
		l := &b.lines[i]

		switch {
		case !row.line.MatchString(l.words):
		case found == nil:
			found = &seen{row: row, first: l, last: l}
		default:
			found.last = l
		}
	}

	return found
}

// isOver reports whether a transient failure has not been repeated, and no other one has followed it at once: guests
// that join have such lines, too, until their network and their clock are ready.
func isOver(f *seen, found []seen, now time.Time) bool {
	const repeated, followed = 2 * time.Minute, 5 * time.Second

	return now.Sub(f.last.at) > repeated && !slices.ContainsFunc(found, func(other seen) bool {
		after := other.last.at.Sub(f.last.at)

		return !other.row.transient && after >= 0 && after <= followed
	})
}

func (c *Console) sign(l *line, reason, message string) sign {
	return sign{
		from:    guestConsole,
		reason:  reason,
		message: message,
		since:   l.at,
		object:  c.Pod,
		kind:    kindConsole,
		status:  statusPrinted,
	}
}

var (
	// escapes are the terminal's control sequences: those with parameters, such as colours, titles, and others.
	escapes = regexp.MustCompile("\x1b(\\[[0-?]*[ -/]*[@-~]|\\][^\x07\x1b]*(\x07|\x1b\\\\)?|[ -/]*[0-~])")
	// booted matches the first line of a boot: of the BIOS, and of the kernel.
	booted = regexp.MustCompile(`^seabios \(version|\blinux version \d`)
)

// linesOf returns the lines of a log that are not empty, without anything but printable characters.
func linesOf(log string) []line {
	var (
		all []line
		at  time.Time
	)

	for raw := range strings.SplitSeq(log, "\n") {
		stamp, text, _ := strings.Cut(raw, " ")

		// A line that was truncated has no time.
		if parsed, err := time.Parse(time.RFC3339Nano, stamp); err == nil {
			at = parsed.Truncate(time.Second)
		} else {
			text = raw
		}

		if shown := printable(text); shown != "" && !at.IsZero() {
			all = append(all, line{at: at, text: shown, words: lower(shown)})
		}
	}

	return all
}

// printable returns a line without control sequences, and characters that change the direction of a text.
func printable(text string) string {
	text = strings.ToValidUTF8(text[:min(len(text), maxConsoleLine)], "")
	text = escapes.ReplaceAllString(text, "")

	return strings.TrimSpace(strings.Map(func(r rune) rune {
		switch {
		case r == '\t' || r == '\r':
			return ' '
		case unicode.IsPrint(r):
			return r
		default:
			return -1
		}
	}, text))
}

// boot is what a guest has printed from one of its starts to the next one.
type boot struct {
	lines []line
	// rest may be of the same boot: there is a gap between both.
	rest []line
}

// boots returns the boots of a guest, of which each has lines.
func (c *Console) boots() []boot {
	if c == nil {
		return nil
	}

	all := bootsIn(linesOf(c.Log))
	later := bootsIn(linesOf(c.End))

	if len(all) > 0 && len(later) > 0 && !booted.MatchString(later[0].lines[0].words) {
		all[len(all)-1].rest = later[0].lines
	}

	return append(all, later...)
}

// bootsIn divides lines at the beginnings of boots.
func bootsIn(lines []line) []boot {
	var all []boot

	begin := 0

	for i := range lines {
		if i > begin && booted.MatchString(lines[i].words) {
			all = append(all, boot{lines: lines[begin:i]})
			begin = i
		}
	}

	if begin == len(lines) {
		return all
	}

	return append(all, boot{lines: lines[begin:]})
}

// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
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
	// Log has a line for each line on the console, which begins with its time, as kubelet writes it.
	Log string
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
	return c != nil && len(c.lines()) == 0
}

// ofConsole returns the signs of the guest's last boot that has any, and its last line. A sign began with the
// first of the boots in a row that have it: the guest may boot again and again.
func (e *Evidence) ofConsole() []sign {
	lines := e.Console.lines()
	if len(lines) == 0 {
		return nil
	}

	var signs []sign

	for _, boot := range slices.Backward(boots(lines)) {
		earlier := e.Console.ofBoot(boot)

		switch {
		case len(signs) == 0:
			signs = earlier
		case !begunEarlier(signs, earlier):
			return append(signs, e.Console.lastLine(lines))
		}
	}

	return append(signs, e.Console.lastLine(lines))
}

func (c *Console) lastLine(lines []line) sign {
	return c.sign(&lines[len(lines)-1], "", "the last line is: ")
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
// its last one.
func (c *Console) ofBoot(boot []line) []sign {
	var signs []sign

	for i := range consoleSigns {
		row := &consoleSigns[i]
		if row.over != nil && slices.ContainsFunc(boot, func(l line) bool { return row.over.MatchString(l.words) }) {
			continue
		}

		var found []line

		for _, l := range boot {
			if row.line.MatchString(l.words) {
				found = append(found, l)
			}
		}

		if len(found) > 0 {
			last := found[len(found)-1]
			last.at = found[0].at
			signs = append(signs, c.sign(&last, row.reason, row.meaning+"; its console shows: "))
		}
	}

	return signs
}

func (c *Console) sign(l *line, reason, introduction string) sign {
	return sign{
		from:    guestConsole,
		reason:  reason,
		message: introduction + withoutSecrets(l.text),
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

// lines returns the console's lines that are not empty, without anything but printable characters.
func (c *Console) lines() []line {
	if c == nil {
		return nil
	}

	var (
		all []line
		at  time.Time
	)

	for raw := range strings.SplitSeq(c.Log, "\n") {
		stamp, text, _ := strings.Cut(raw, " ")

		// A line that was truncated has no time.
		if parsed, err := time.Parse(time.RFC3339Nano, stamp); err == nil {
			at = parsed.Truncate(time.Second)
		} else {
			text = raw
		}

		if shown := printable(text); shown != "" && !at.IsZero() {
			all = append(all, line{at: at, text: shown, words: strings.ToLower(shown)})
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

// boots divides the lines of a console at the beginnings of boots.
func boots(lines []line) [][]line {
	var all [][]line

	begin := 0

	for i := range lines {
		if i > begin && booted.MatchString(lines[i].words) {
			all = append(all, lines[begin:i])
			begin = i
		}
	}

	return append(all, lines[begin:])
}

// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package screen is the output of the demos: tables and progress that are redrawn in place on a
// terminal, and printed line by line elsewhere. It must not depend on what the demos show.
package screen

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
)

const (
	tableEvery    = 2 * time.Second  // minimum interval if the output is not a terminal
	progressEvery = 25 * time.Second // likewise, if the key is unchanged; with a report every 10 s, a line comes every 30 s
)

// Screen is the output of a demo. On a terminal it redraws the last lines in place. On any other
// output, such as the log of a CI job, it prints them again when they have changed.
type Screen struct {
	mu      sync.Mutex
	out     io.Writer
	width   func() int // nil: not a terminal
	now     func() time.Time
	live    int // number of lines that the next drawing replaces
	key     string
	printed time.Time
	pending string // changed, but not printed yet
}

// New returns a screen that writes to out, which can be a terminal.
func New(out io.Writer) *Screen {
	s := &Screen{out: out, now: time.Now}
	if f, ok := out.(*os.File); ok && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb" {
		s.width = func() int {
			if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 0 {
				return width
			}
			return 80
		}
	}
	return s
}

// Line prints a permanent line.
func (s *Screen) Line(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settleLocked()
	s.write(fmt.Sprintf(format, args...))
}

// Settle makes the drawn lines permanent.
func (s *Screen) Settle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settleLocked()
}

func (s *Screen) settleLocked() {
	if s.pending != "" {
		s.write(s.pending)
	}
	s.live = 0
	s.key = ""
	s.pending = ""
	s.printed = time.Time{}
}

// Table draws a block of lines. The key is its relevant part: a block with an unchanged
// key is rarely printed again.
func (s *Screen) Table(block, key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.width != nil {
		s.draw(block)
		return
	}
	if key == s.key && s.now().Sub(s.printed) < progressEvery {
		return
	}
	s.pending = block
	if s.now().Sub(s.printed) >= tableEvery {
		s.print(key)
	}
}

// Progress draws a line about a long operation. The key identifies the operation.
func (s *Screen) Progress(line, key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.width != nil {
		s.draw(line)
		return
	}
	s.pending = line
	if key != s.key || s.now().Sub(s.printed) >= progressEvery {
		s.print(key)
	}
}

func (s *Screen) print(key string) {
	s.write(s.pending)
	s.key = key
	s.pending = ""
	s.printed = s.now()
}

// draw replaces the live lines of a terminal. It cuts each line to the terminal's width, because a
// wrapped line would not be replaced.
func (s *Screen) draw(block string) {
	var b strings.Builder
	if s.live > 0 {
		fmt.Fprintf(&b, "\x1b[%dA\x1b[J", s.live)
	}
	lines := strings.Split(strings.TrimRight(block, "\n"), "\n")
	for i, line := range lines {
		lines[i] = cut(line, s.width()-1)
	}
	b.WriteString(strings.Join(lines, "\n"))
	s.live = len(lines)
	s.write(b.String())
}

// write prints a line. It ignores errors, because the demo must clean up
// even if its reader is gone.
func (s *Screen) write(text string) {
	_, _ = io.WriteString(s.out, text+"\n")
}

// TableWidth is the usual width of the table.
const TableWidth = 110

// Narrow reports whether the table will be cut.
func (s *Screen) Narrow() bool {
	return s.width != nil && s.width() < TableWidth
}

// cut shortens text to a number of characters.
func cut(text string, width int) string {
	runes := []rune(text)
	if len(runes) <= width {
		return text
	}
	const dots = "..."
	return string(runes[:max(0, width-len(dots))]) + dots
}

// Clock formats a duration for display.
func Clock(d time.Duration) string {
	seconds := int(d.Round(time.Second).Seconds())
	return fmt.Sprintf("%d:%02d", seconds/60, seconds%60)
}

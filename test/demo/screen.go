package main

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
	progressEvery = 30 * time.Second // likewise, for progress with an unchanged key
)

// screen is the output of the demo. On a terminal it redraws the last lines in place. On any other
// output, such as the log of a CI job, it prints them again when they have changed.
type screen struct {
	mu      sync.Mutex
	out     io.Writer
	width   func() int // nil: not a terminal
	now     func() time.Time
	live    int // number of lines that the next drawing replaces
	key     string
	printed time.Time
	pending string // changed, but not printed yet
}

func newScreen(f *os.File) *screen {
	s := &screen{out: f, now: time.Now}
	if fd := int(f.Fd()); term.IsTerminal(fd) && os.Getenv("TERM") != "dumb" {
		s.width = func() int {
			if width, _, err := term.GetSize(fd); err == nil && width > 0 {
				return width
			}
			return 80
		}
	}
	return s
}

// line prints a permanent line.
func (s *screen) line(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settleLocked()
	s.write(fmt.Sprintf(format, args...))
}

// settle makes the drawn lines permanent.
func (s *screen) settle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settleLocked()
}

func (s *screen) settleLocked() {
	if s.pending != "" {
		s.write(s.pending)
	}
	s.live, s.key, s.pending, s.printed = 0, "", "", time.Time{}
}

// table draws a block of lines. The key is its relevant part: a block with an unchanged
// key is not printed again.
func (s *screen) table(block, key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.width != nil {
		s.draw(block)
		return
	}
	if key == s.key {
		return
	}
	s.pending = block
	if s.now().Sub(s.printed) >= tableEvery {
		s.print(key)
	}
}

// progress draws a line about a long operation. The key identifies the operation.
func (s *screen) progress(line, key string) {
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

func (s *screen) print(key string) {
	s.write(s.pending)
	s.key, s.pending, s.printed = key, "", s.now()
}

// draw replaces the live lines of a terminal. It cuts each line to the terminal's width, because a
// wrapped line would not be replaced.
func (s *screen) draw(block string) {
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
func (s *screen) write(text string) {
	_, _ = io.WriteString(s.out, text+"\n")
}

// tableWidth is the usual width of the table.
const tableWidth = 110

// narrow reports whether the table will be cut.
func (s *screen) narrow() bool {
	return s.width != nil && s.width() < tableWidth
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

// clock formats a duration for display.
func clock(d time.Duration) string {
	seconds := int(d.Round(time.Second).Seconds())
	return fmt.Sprintf("%d:%02d", seconds/60, seconds%60)
}

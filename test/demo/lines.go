package main

import (
	"bytes"
	"strings"
	"sync"
)

// lines shows a child's output line by line until hush is called.
type lines struct {
	screen *screen
	last   tail

	mu     sync.Mutex
	rest   []byte // an incomplete line
	hushed bool
}

func (l *lines) Write(data []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.hushed {
		l.rest = append(l.rest, data...)
	}
	for !l.hushed {
		line, rest, complete := bytes.Cut(l.rest, []byte("\n"))
		if !complete {
			break
		}
		l.show(string(line))
		l.rest = rest
	}
	return l.last.Write(data)
}

// show draws progress such as "step 3/9 kube-apiserver, 2:10, about 14 min left" in place,
// and prints all other lines.
func (l *lines) show(line string) {
	if strings.HasPrefix(line, "lab ") && strings.Contains(line, " is ready ") {
		l.hushed = true // the following lines are for users who run the lab alone
		return
	}
	if step, _, isStep := strings.Cut(line, ","); isStep && strings.HasPrefix(line, "step ") {
		l.screen.progress("  "+line, step)
		return
	}
	l.screen.line("  %s", line)
}

// hush stops all output.
func (l *lines) hush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hushed = true
}

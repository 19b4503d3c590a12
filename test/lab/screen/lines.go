// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package screen

import (
	"bytes"
	"regexp"
	"strings"
	"sync"
)

// reported is the begin of the lines of Report.
var reported = regexp.MustCompile(`^(step|build|start) `)

// Lines is an io.Writer that prints the output of a program line by line. Progress such as
// "step 3/9 kube-apiserver, 2:10, about 14 min left" is drawn in place.
type Lines struct {
	// Screen receives the lines.
	Screen *Screen
	// Last reports whether a line ends the output for the user; nil if none does. The line itself is
	// not printed.
	Last func(line string) bool
	// Tail has the end of the output, also of what was not printed.
	Tail Tail

	mu     sync.Mutex
	rest   []byte // an incomplete line
	hushed bool
}

// Write implements io.Writer.
func (l *Lines) Write(data []byte) (int, error) {
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
	return l.Tail.Write(data)
}

func (l *Lines) show(line string) {
	if l.Last != nil && l.Last(line) {
		l.hushed = true
		return
	}
	if operation, _, isProgress := strings.Cut(line, ","); isProgress && reported.MatchString(operation) {
		l.Screen.Progress("  "+line, operation)
		return
	}
	l.Screen.Line("  %s", line)
}

// Hush stops all output.
func (l *Lines) Hush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hushed = true
}

package integration

import (
	"net/http"
	"path"
	"slices"
	"strings"
)

// lineCall is what was asked over a line.
type lineCall struct {
	what        string // as callOf names it
	method, uri string
}

func lineCallOf(r *http.Request) lineCall {
	return lineCall{what: callOf(r.Method, r.URL), method: r.Method, uri: r.URL.RequestURI()}
}

// asked returns how often a call was made, as callOf names it.
func (l *line) asked(call string) int {
	return len(l.callsOf(func(made lineCall) bool { return made.what == call }))
}

// named returns the objects that such calls have named, but the first so many of these calls.
func (l *line) named(call string, but int) []string {
	made := l.callsOf(func(made lineCall) bool { return made.what == call })

	names := make([]string, 0, len(made))
	for _, c := range made[but:] {
		names = append(names, path.Base(c.uri))
	}

	slices.Sort(names)

	return slices.Compact(names)
}

// written returns the calls that write, and have this in the names or the selector of what they write to.
func (l *line) written(name string) []string {
	var calls []string
	for _, c := range l.callsOf(func(made lineCall) bool { return made.method != http.MethodGet && strings.Contains(made.uri, name) }) {
		calls = append(calls, c.method+" "+c.uri)
	}

	return calls
}

func (l *line) callsOf(which func(lineCall) bool) []lineCall {
	l.mu.Lock()
	defer l.mu.Unlock()

	var calls []lineCall

	for _, made := range l.calls {
		if which(made) {
			calls = append(calls, made)
		}
	}

	return calls
}

package integration

import (
	"net/http"
	"path"
	"slices"
	"strings"
)

// lineCall is a request sent over a line.
type lineCall struct {
	what        string // as returned by callOf
	method, uri string
}

func lineCallOf(r *http.Request) lineCall {
	return lineCall{what: callOf(r.Method, r.URL), method: r.Method, uri: r.URL.RequestURI()}
}

// asked returns how often a call, as named by callOf, was made.
func (l *line) asked(call string) int {
	return len(l.callsOf(func(made lineCall) bool { return made.what == call }))
}

// named returns the objects named in such calls, skipping the given number of first calls.
func (l *line) named(call string, but int) []string {
	made := l.callsOf(func(made lineCall) bool { return made.what == call })

	names := make([]string, 0, len(made))
	for _, c := range made[but:] {
		names = append(names, path.Base(c.uri))
	}

	slices.Sort(names)

	return slices.Compact(names)
}

// written returns the writing calls whose URI contains this name.
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

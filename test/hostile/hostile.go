// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package hostile provides the answers of malicious servers. The owner of a shoot can put such a
// server behind a kubeconfig. Tests of the gate (pkg/providerapi), of the driver's methods and of
// the operator's commands use them to answer every request. Most are plausible, so that the client
// proceeds until it decodes the bad part.
package hostile

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"maps"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
)

// Quantity takes hours to parse.
const Quantity = "1234567890123456789012e2000000000"

// Answer is one way to answer every request.
type Answer struct {
	// Reason describes its effect on a program without bounds.
	Reason string
	Serve  http.HandlerFunc
	// Get and List are substrings of the errors of a get and of a list. They identify the bound
	// that refuses the answer. Empty means that the answer is not refused.
	Get, List string
}

// Parts of the error messages of the bounds.
const (
	size, levels         = "the response is too large", "levels of nesting"
	number, memory       = "has a number with more than", "of memory"
	noEnd                = "the list does not end"
	noJSON, noStatus     = "the response cannot be read", "the response is not from a Kubernetes API server"
	tooMany, unavailable = "the server has received too many requests", "the server is currently unable to handle the request"
	forbidden, rejected  = "permission denied", "the server rejected our request"
	identity             = "that no API server accepts"
)

// Answers returns all answers by name. The objects carry the tags of a shoot
// called c, and the role node.
func Answers() map[string]Answer { return answers() }

// answers are created once, because they hold many megabytes.
var answers = sync.OnceValue(func() map[string]Answer {
	all := costly()
	maps.Copy(all, map[string]Answer{
		"Issue":        {"quantities in every object, endless lists, watches that must be retried after an hour", issue, number, noEnd},
		"Quantity":     {"parsing takes hours", objects(Quantity, ""), number, number},
		"SmallNumber":  {"comparing takes hours", objects("1e2000000000", ""), number, number},
		"Negative":     {"rounding takes hours", objects("1e-2000000000", ""), number, number},
		"Escaped":      {"the same, with an escaped letter", objects(`1\u00652000000000`, ""), number, number},
		"Spaced":       {"the same, after white space", objects(`\u2003 `+Quantity, ""), number, number},
		"Digits":       {"a number with a hundred thousand digits", objects(strings.Repeat("9", 100_000), ""), number, number},
		"Members":      {"an object with a million members", objects("1Gi", members(1_000_000)), memory, memory},
		"Elements":     {"arrays that are large in memory", objects("1Gi", `,"finalizers":[`+strings.Repeat(`"",`, 2_000_000)+`""]`), memory, memory},
		"Owners":       {"arrays of structures that are large in memory", objects("1Gi", `,"ownerReferences":[`+strings.Repeat("{},", 2_000_000)+`{}]`), memory, memory},
		"Depth":        {"a million levels of nesting", objects("1Gi", `,"x":`+strings.Repeat("[", 1<<20)), levels, levels},
		"LongName":     {"a name of megabytes", objects("1Gi", `,"generateName":"`+strings.Repeat("x", 7<<20)+`"`), memory, ""},
		"LargestName":  {"a name of less megabytes", objects("1Gi", `,"generateName":"`+strings.Repeat("x", 2900<<10)+`"`), memory, ""},
		"EndlessLists": {"endless lists", endlessLists, "", noEnd},
		"Circle":       {"a page that refers to itself as the next page", listsWith(func(string) string { return "x" }), "", noEnd},
		"RetryAfter":   {"a Retry-After header of an hour", retryAfter(http.StatusTooManyRequests), tooMany, tooMany},
		"Unavailable":  {"the same, with another code", retryAfter(http.StatusServiceUnavailable), unavailable, unavailable},
		"DelayInBody":  {"the same, in the body", status(http.StatusTooManyRequests, `"details":{"retryAfterSeconds":3600}`), tooMany, tooMany},
		"Causes":       {"an error with ten thousand causes", status(http.StatusUnprocessableEntity, `"details":{"causes":[`+strings.Repeat(`{"message":"x"},`, 10_000)+`{}]}`), rejected, rejected},
		"LongMessage":  {"an error with a long message", status(http.StatusForbidden, `"message":"`+strings.Repeat("x", 200<<10)+`"`), forbidden, forbidden},
		"ErrorQuantity": {
			"an error with an expensive number", status(http.StatusForbidden, `"details":{"retryAfterSeconds":`+Quantity+`}`),
			noStatus, noStatus,
		},
		"FailureAsSuccess": {"a successful response with a large failure in its body", status(http.StatusOK, `"status":"Failure","message":"`+strings.Repeat("x", 4<<20)+`"`), size, "list all: xxx"},
		"EndlessBody":      {"an endless body", endless(`{"a":"`, strings.Repeat("x", 1<<16)), size, size},
		"EndlessSpace":     {"endless white space", endless("", strings.Repeat(" ", 1<<16)), size, size},
		"EndlessError":     {"an endless error", endlessError, noStatus, noStatus},
		"Bomb":             {"a small body that is large after decompression", bomb, noJSON, noJSON},
		"Headers":          {"endless headers", headers, noJSON, noJSON},
		"Redirect":         {"a redirect to another host", redirect, "status code 307", "status code 307"},
		"Page":             {"an HTML page", page, noJSON, noJSON},
		"Truncated":        {"a truncated response", truncated, noJSON, noJSON},
		"Switches":         {"a switch to another protocol", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusSwitchingProtocols) }, noJSON, noJSON},
		"EventsOfOthers":   {"events of a million objects", events(1_000_000), "", ""},
		"ErrorEvents":      {"ERROR events without a Status", errorEvents, "", ""},
	})

	return all
})

// costly are further answers, each of which costs a client without bounds many times its size, or many
// requests and lines of the log.
func costly() map[string]Answer {
	return map[string]Answer{
		"SmallBodies": {"60 KB that take megabytes", contents(arrays), memory, ""},
		"Texts":       {"texts of 300 KB in every object", contents(func(*http.Request) string { return `"x":{}` }, `,"annotations":{"a":"`+strings.Repeat("x", 300<<10)+`"}`), "", ""},
		"Store":       {"instances that take more in a store than as text", store, "", noEnd},
		"LongToken":   {"a token of megabytes for the next page", listsWith(func(string) string { return strings.Repeat("x", 7800<<10) }), "", noEnd},
		"LongUID":     {"UIDs of megabytes", identities("m", strings.Repeat("u", 2900<<10)), memory, identity},
		"NewUIDs":     {"another UID in each response", newUIDs(), "", ""},
		"BadUID":      {"UIDs that no object can have", identities("m", "u\\nu"), identity, identity},
		"BadName":     {"names that no object can have", identities("../m_M", "u"), identity, identity},
		"LongName506": {"names that are too long", identities(strings.Repeat("m", 507), "u"), identity, identity},
		"LongURL":     {"references whose request has a URL of 200 KB", contents(references), "", ""},
		"ShortWatch":  {"watches that end after one event", shortWatch, "", ""},
		"Bookmarks":   {"BOOKMARK events of another kind", bookmarks, "", ""},
		"SmallEvents": {"endless events, each of 60 KB", smallEvents, "", ""},
		"Header":      {"250 KiB of headers", header, noJSON, noJSON},
		"EmptyBlocks": {"endless empty blocks of gzip", emptyBlocks, noJSON, noJSON},
	}
}

// Stalls returns the ways to begin an answer that never ends, by name. Each costs the
// time limit of its request.
func Stalls() map[string]http.HandlerFunc {
	return map[string]http.HandlerFunc{
		"Silent": Silent,
		"Half": func(w http.ResponseWriter, r *http.Request) {
			begin(w, codeOf(r))
			flush(w, objectOf(r, "1Gi", "")[:30])
			Silent(w, r)
		},
		"HalfLarge": func(w http.ResponseWriter, r *http.Request) {
			begin(w, codeOf(r))
			flush(w, `{"kind":"`+strings.Repeat("x", 2<<20))
			Silent(w, r)
		},
		"HalfEvent": func(w http.ResponseWriter, r *http.Request) {
			begin(w, codeOf(r))
			flush(w, `{"type":"MODIFIED","object":`+objectOf(r, "1Gi", "")+`}`+"\n"+`{"type":"MODIFIED","object":{"kind":"`)
			Silent(w, r)
		},
		"HalfError": func(w http.ResponseWriter, r *http.Request) {
			begin(w, http.StatusInternalServerError)
			flush(w, `{"kind":"Status","apiVersion":"v1","message":"`)
			Silent(w, r)
		},
	}
}

// flush sends a text immediately.
func flush(w http.ResponseWriter, text string) {
	_, _ = io.WriteString(w, text) // The client may hang up.
	_ = http.NewResponseController(w).Flush()
}

// Silent does not answer until the client disconnects.
func Silent(_ http.ResponseWriter, r *http.Request) {
	// A server detects a client's disconnect only after it has read the request.
	_, _ = io.Copy(io.Discard, r.Body)
	<-r.Context().Done()
}

func members(n int) string {
	var text strings.Builder

	text.WriteString(`,"annotations":{"a":""`)

	for i := range n {
		fmt.Fprintf(&text, `,"%06x":""`, i)
	}

	text.WriteString("}")

	return text.String()
}

func begin(w http.ResponseWriter, code int) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
}

// issue combines all attacks, and stays plausible as long as possible.
func issue(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Query().Has("watch"):
		retryAfter(http.StatusTooManyRequests)(w, r)
	case isList(r):
		endlessLists(w, r)
	default:
		objects(Quantity, "")(w, r)
	}
}

// objects answers with objects that contain this quantity in every possible field,
// and additional metadata.
func objects(quantity, metadata string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		begin(w, codeOf(r))

		one := objectOf(r, quantity, metadata)

		switch {
		case r.URL.Query().Has("watch"):
			_, _ = fmt.Fprintf(w, `{"type":"MODIFIED","object":%s}`, one) // The client may hang up, here and below.
		case isList(r):
			_, _ = fmt.Fprintf(w, `{%s,"metadata":{"resourceVersion":"1"},"items":[%s]}`, kindOf(r, "List"), one)
		default:
			_, _ = io.WriteString(w, one)
		}
	}
}

// endlessLists answers lists with endless pagination, and other requests with ordinary objects.
func endlessLists(w http.ResponseWriter, r *http.Request) {
	listsWith(func(here string) string {
		number, _ := strconv.Atoi(here)

		return strconv.Itoa(number + 1)
	})(w, r)
}

func listsWith(next func(here string) string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !isList(r) || r.URL.Query().Has("watch") {
			objects("1Gi", "")(w, r)

			return
		}

		here := r.URL.Query().Get("continue")
		items := strings.Repeat(objectOf(r, "1Gi", "")+",", 9) + objectOf(r, "1Gi", "")

		begin(w, http.StatusOK)
		_, _ = fmt.Fprintf(w, `{%s,"metadata":{"resourceVersion":"1","continue":%q},"items":[%s]}`, kindOf(r, "List"), next(here), items)
	}
}

// events answers watches with the events of many objects, and other requests with ordinary objects.
func events(many int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !r.URL.Query().Has("watch") {
			objects("1Gi", "")(w, r)

			return
		}

		begin(w, http.StatusOK)

		for i := range many {
			text := strings.Replace(objectOf(r, "1Gi", ""), `"name":"m"`, fmt.Sprintf(`"name":"m%d"`, i), 1)
			if _, err := fmt.Fprintf(w, `{"type":"ADDED","object":%s}`+"\n", text); err != nil {
				return
			}
		}
	}
}

// errorEvents answers watches with ERROR events whose objects are not metav1.Status, and other
// requests with ordinary objects.
func errorEvents(w http.ResponseWriter, r *http.Request) {
	if !r.URL.Query().Has("watch") {
		objects("1Gi", "")(w, r)

		return
	}

	begin(w, http.StatusOK)
	_, _ = fmt.Fprintf(w, `{"type":"ERROR","object":%s}`, objectOf(r, "1Gi", "")) // The client may hang up.
}

func retryAfter(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", "3600")
		status(code, `"message":"later"`)(w, r)
	}
}

// status answers with a metav1.Status that includes this part.
func status(code int, part string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		begin(w, code)
		_, _ = fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","code":%d,%s}`, code, part)
	}
}

func endless(start, more string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		begin(w, codeOf(r))
		writeEndless(w, start, more)
	}
}

func endlessError(w http.ResponseWriter, _ *http.Request) {
	begin(w, http.StatusInternalServerError)
	writeEndless(w, `{"kind":"Status","apiVersion":"v1","message":"`, strings.Repeat("x", 1<<16))
}

// writeEndless writes until the client disconnects.
func writeEndless(w io.Writer, start, more string) {
	_, err := io.WriteString(w, start)
	for err == nil {
		_, err = io.WriteString(w, more)
	}
}

func bomb(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Encoding", "gzip")
	begin(w, codeOf(r))
	_, _ = w.Write(packed()) // The client may hang up.
}

// packed is 128 MiB when decompressed.
var packed = sync.OnceValue(func() []byte {
	var all bytes.Buffer

	space := gzip.NewWriter(&all)
	for range 128 {
		_, _ = io.WriteString(space, strings.Repeat(" ", 1<<20)) // In memory.
	}

	_ = space.Close()

	return all.Bytes()
})

func headers(w http.ResponseWriter, _ *http.Request) {
	for i := range 1000 {
		w.Header().Set("Warning-"+strconv.Itoa(i), strings.Repeat("x", 1<<10))
	}

	begin(w, http.StatusOK)
}

func redirect(w http.ResponseWriter, r *http.Request) {
	http.Redirect(w, r, "https://127.0.0.1:1/", http.StatusTemporaryRedirect)
}

func page(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html")
	_, _ = io.WriteString(w, "<html>")
}

func truncated(w http.ResponseWriter, r *http.Request) {
	begin(w, codeOf(r))
	_, _ = io.WriteString(w, objectOf(r, "1Gi", "")[:30])
}

func codeOf(r *http.Request) int {
	if r.Method == http.MethodPost {
		return http.StatusCreated
	}

	return http.StatusOK
}

// isList reports whether a request is for a list: the last part of its path is a resource.
func isList(r *http.Request) bool {
	_, known := kinds[path.Base(r.URL.Path)]

	return known && r.Method == http.MethodGet
}

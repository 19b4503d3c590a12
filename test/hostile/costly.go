// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// contents answers with objects of this content, and additional metadata.
func contents(of func(*http.Request) string, metadata ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		respond(w, r, objectWith(r, strings.Join(metadata, ""), of(r)))
	}
}

// respond answers with an object, a list of it or an event with it.
func respond(w http.ResponseWriter, r *http.Request, one string) {
	begin(w, codeOf(r))

	switch {
	case r.URL.Query().Has("watch"):
		_, _ = fmt.Fprintf(w, `{"type":"MODIFIED","object":%s}`+"\n", one) // The client may hang up, here and below.
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	case isList(r):
		_, _ = fmt.Fprintf(w, `{%s,"metadata":{"resourceVersion":"1"},"items":[%s]}`, kindOf(r, "List"), one)
	default:
		_, _ = io.WriteString(w, one)
	}
}

// arrays returns the content of an object with an array of empty structures that are large in memory.
func arrays(r *http.Request) string {
	many := strings.Repeat("{},", 19_000) + "{}"

	switch resourceOf(r) {
	case "virtualmachines":
		return `"spec":{"template":{"spec":{"domain":{"devices":{}}}},"dataVolumeTemplates":[` + many + `]}`
	case "virtualmachineinstances":
		return `"spec":{"domain":{"devices":{}},"volumes":[` + many + `]},"status":{"phase":"Scheduling"}`
	case "pods":
		return `"spec":{"containers":[` + many + `]}`
	default:
		return `"spec":{},"status":{"conditions":[` + many + `]}`
	}
}

// references returns the content of objects that refer to objects with names of 200 KB.
func references(r *http.Request) string {
	long := strings.Repeat("x", 200<<10)

	switch resourceOf(r) {
	case "virtualmachineinstances":
		return `"spec":{"domain":{"devices":{}}},"status":{"phase":"Scheduling","activePods":{"` + long + `":"n"}}`
	case "datavolumes":
		return `"spec":{"source":{"pvc":{"namespace":"machines","name":"` + long + `"}}},"status":{"phase":"CloneInProgress"}`
	default:
		return `"spec":{"template":{"spec":{"domain":{"devices":{}}}}}`
	}
}

// store answers lists of instances with many that have many conditions, and watches with their changes.
func store(w http.ResponseWriter, r *http.Request) {
	if !isList(r) || r.URL.Query().Has("watch") {
		objects("1Gi", "")(w, r)

		return
	}

	from, _ := strconv.Atoi(r.URL.Query().Get("continue"))
	conditions := strings.Repeat(`{},`, 700) + "{}"

	var items []string

	for i := range 20 {
		one := objectWith(r, "", `"spec":{},"status":{"phase":"Running","conditions":[`+conditions+`]}`)
		items = append(items, strings.ReplaceAll(one, `"m"`, fmt.Sprintf(`"m-%d-%d"`, from, i)))
	}

	begin(w, http.StatusOK)
	_, _ = fmt.Fprintf(w, `{%s,"metadata":{"resourceVersion":"1","continue":"%d"},"items":[%s]}`, // The client may hang up.
		kindOf(r, "List"), from+1, strings.Join(items, ","))
}

// identities answers with objects of this name and UID, in quotes.
func identities(name, uid string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		respond(w, r, fmt.Sprintf(`{%s,"metadata":{"name":"%s","namespace":"machines","uid":"%s","resourceVersion":"1",
			"labels":{"mcm.gardener.cloud/cluster":"c","mcm.gardener.cloud/role":"node"}},"spec":{}}`, kindOf(r, ""), name, uid))
	}
}

// newUIDs answers with objects of another UID each time.
func newUIDs() http.HandlerFunc {
	var count atomic.Int64

	return func(w http.ResponseWriter, r *http.Request) { identities("m", fmt.Sprint("uid-", count.Add(1)))(w, r) }
}

// shortWatch answers watches with one event, and other requests with ordinary objects.
func shortWatch(w http.ResponseWriter, r *http.Request) { objects("1Gi", "")(w, r) }

// bookmarks answers watches with endless BOOKMARK events of another kind.
func bookmarks(w http.ResponseWriter, r *http.Request) {
	if !r.URL.Query().Has("watch") {
		objects("1Gi", "")(w, r)

		return
	}

	begin(w, http.StatusOK)
	writeEndless(w, "", `{"type":"BOOKMARK","object":{"kind":"VirtualMachine","apiVersion":"kubevirt.io/v1","metadata":{"resourceVersion":"1"}}}`+"\n")
}

// smallEvents answers watches with endless events of small text, and other requests with ordinary objects.
func smallEvents(w http.ResponseWriter, r *http.Request) {
	if !r.URL.Query().Has("watch") {
		objects("1Gi", "")(w, r)

		return
	}

	begin(w, http.StatusOK)
	writeEndless(w, "", `{"type":"MODIFIED","object":`+objectWith(r, "", arrays(r))+"}\n")
}

// header answers with 250 KiB of headers.
func header(w http.ResponseWriter, r *http.Request) {
	for i := range 250 {
		w.Header().Set("X-"+strconv.Itoa(i), strings.Repeat("x", 1000))
	}

	objects("1Gi", "")(w, r)
}

// emptyBlocks answers with gzip that never contains anything.
func emptyBlocks(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Encoding", "gzip")
	begin(w, codeOf(r))
	writeEndless(w, "", emptyMembers())
}

// emptyMembers are empty members of a gzip file.
var emptyMembers = sync.OnceValue(func() string {
	var all bytes.Buffer

	for range 1000 {
		_ = gzip.NewWriter(&all).Close() // In memory.
	}

	return all.String()
})

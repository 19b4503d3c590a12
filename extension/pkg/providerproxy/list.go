// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providerproxy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/connection"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi/transport"
)

const (
	// perPage is the initial number of objects per page: transport bounds a response.
	perPage = 50
	// maxPages bounds the pages of a list, and maxObjects its objects. An empty object takes three bytes,
	// and two thousand when it is decoded.
	maxPages, maxObjects = 200, 2000
	// maxBytes bounds the bytes of all pages of a list together. A VirtualMachineInstance takes up to
	// 15 KiB.
	maxBytes = 16 << 20
	// maxCost bounds the memory that a program needs to decode all pages of a list, as transport
	// estimates it. Eight hundred VirtualMachineInstances take this amount.
	maxCost = 160 << 20
)

// errListTooLarge is the error of a list that exceeds its bounds.
var errListTooLarge = fmt.Errorf("the list is too large: it has more than %d objects, %d MiB or %d pages, or too many elements and members",
	maxObjects, maxBytes>>20, maxPages)

// page is a page of a list.
type page struct {
	Kind       string            `json:"kind"`
	APIVersion string            `json:"apiVersion"`
	Metadata   pageMetadata      `json:"metadata"`
	Items      []json.RawMessage `json:"items"`
}

type pageMetadata struct {
	ResourceVersion string `json:"resourceVersion,omitempty"`
	Continue        string `json:"continue,omitempty"`
}

// list reads the pages of one list.
type list struct {
	to      *connection.Target
	request *http.Request
	slot    *transport.ReadSlot
	limit   int
}

// list reads a list page by page, and returns it as if it had one page. The server ignores the limit in
// requests for a single object.
func (p *reader) list(to *connection.Target, r *http.Request, slot *transport.ReadSlot) (*http.Response, error) {
	l := &list{to: to, request: r, slot: slot, limit: perPage}

	response, body, err := l.fetch("")
	if err != nil {
		return nil, err
	}

	first, is := pageIn(response, body)

	switch {
	case is && len(first.Items) > maxObjects:
		return nil, errListTooLarge
	case !is || first.Metadata.Continue == "":
		return with(response, bytes.NewReader(body)), nil
	}

	// Only one list of several pages is read at a time, since it takes many times the memory of another
	// response. It is read again from its beginning, so that nothing is held by those that wait.
	slot.Release()

	leave, err := enter(r.Context(), p.lists)
	if err != nil {
		return nil, err
	}

	response, err = l.join()
	if err != nil {
		leave()

		return nil, err
	}

	response.Body = &onClose{ReadCloser: response.Body, do: func() { afterDecoding(slot.Cost(), leave) }}

	return response, nil
}

// join reads all pages, and returns their objects in one. If the server refuses a page, this is the
// response: the program begins again.
func (l *list) join() (*http.Response, error) {
	objects := []json.RawMessage{}
	here := ""
	size := 0
	before := l.slot.Cost()

	for range maxPages {
		response, body, err := l.fetch(here)
		if err != nil {
			return nil, err
		}

		next, is := pageIn(response, body)
		if !is {
			return with(response, bytes.NewReader(body)), nil
		}

		objects = append(objects, next.Items...)
		if size += len(body); len(objects) > maxObjects || size > maxBytes || l.slot.Cost()-before > maxCost {
			return nil, errListTooLarge
		}

		if here = next.Metadata.Continue; here == "" {
			return with(response, text(next, objects)), nil
		}
	}

	return nil, errListTooLarge
}

// fetch reads the page at a position. If it takes too much memory, it reads this page and all following
// ones with a quarter of the objects: one large object must not hide the others.
func (l *list) fetch(here string) (*http.Response, []byte, error) {
	for {
		response, body, err := whole(l.to, l.pageAt(here))
		if !errors.Is(err, transport.ErrPage) || l.limit == 1 {
			return response, body, err
		}

		l.limit = max(1, l.limit/4)
	}
}

func (l *list) pageAt(here string) *http.Request {
	r := *l.request
	address := *l.request.URL

	query := address.Query()
	query.Set("limit", strconv.Itoa(l.limit))

	if here != "" {
		query.Set("continue", here)
	}

	address.RawQuery = query.Encode()
	r.URL = &address

	return &r
}

// pageIn returns the page of a list in a response, if it is one. Everything else is the program's to
// judge.
func pageIn(response *http.Response, body []byte) (page, bool) {
	read := page{}
	err := json.Unmarshal(body, &read)

	return read, err == nil && response.StatusCode == http.StatusOK && read.Items != nil
}

// text returns the text of a list with the objects of all its pages, without a copy of them.
func text(last page, objects []json.RawMessage) io.Reader {
	last.Items = []json.RawMessage{}
	last.Metadata.Continue = ""

	head, err := json.Marshal(last)
	if err != nil {
		return bytes.NewReader(nil) // Unreachable: it was decoded before.
	}

	const end = "]}"

	pieces := []io.Reader{bytes.NewReader(head[:len(head)-len(end)])}

	for i, object := range objects {
		if i > 0 {
			pieces = append(pieces, bytes.NewReader([]byte(",")))
		}

		pieces = append(pieces, bytes.NewReader(object))
	}

	return io.MultiReader(append(pieces, bytes.NewReader([]byte(end)))...)
}

// with returns a response with another body.
func with(response *http.Response, body io.Reader) *http.Response {
	response.Body = io.NopCloser(body)

	return response
}

package kubeconfig

import (
	"fmt"
	"io"
	"net/http"
)

// maxElements bounds the elements of all arrays in one answer, or in one event of a watch. 500 VirtualMachines' metadata have a
// fifth.
const maxElements = 20_000

// elements is the body of an answer in JSON. It ends where its arrays have too many elements: an empty one has three bytes in the
// answer, and up to a thousand when it has been read.
type elements struct {
	io.ReadCloser

	count int
	// arrays says of each bracket that is open whether it is an array's.
	arrays          []bool
	quoted, escaped bool
}

// Read implements io.Reader.
func (e *elements) Read(p []byte) (int, error) {
	n, err := e.ReadCloser.Read(p)

	for _, b := range p[:n] {
		e.take(b)

		if e.count > maxElements {
			return 0, fmt.Errorf("more than %d elements: %w", maxElements, &http.MaxBytesError{Limit: maxAnswer})
		}
	}

	return n, err
}

func (e *elements) take(b byte) {
	switch {
	case e.escaped:
		e.escaped = false
	case e.quoted:
		e.escaped, e.quoted = b == '\\', b != '"'
	default:
		e.takeStructure(b)
	}
}

// takeStructure takes what is not in a string. What begins in the outermost place is a document of its own.
func (e *elements) takeStructure(b byte) {
	inner := len(e.arrays) - 1

	switch b {
	case '"':
		e.quoted = true
	case '{':
		e.arrays = append(e.arrays, false)
	case '[':
		e.arrays = append(e.arrays, true)
		e.count++
	case ',':
		if inner >= 0 && e.arrays[inner] {
			e.count++
		}
	case ']', '}':
		e.arrays = e.arrays[:max(inner, 0)]
		if inner <= 0 {
			e.count = 0
		}
	}
}

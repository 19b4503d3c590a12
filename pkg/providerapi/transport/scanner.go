package transport

import (
	"errors"
	"fmt"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/quantity"
)

// excessError names the bound that a response exceeds. Its text contains no byte of the response.
type excessError struct{ what string }

func (e *excessError) Error() string { return "the response " + e.what }

// ErrElements is the error of a response with too many elements in its arrays. A list can be read
// with fewer objects per page.
var ErrElements error = &excessError{fmt.Sprintf("is too large: it has more than %d elements in arrays", maxElements)}

var (
	errDepth   = &excessError{fmt.Sprintf("is too large: it has more than %d levels of nesting", maxDepth)}
	errMembers = &excessError{fmt.Sprintf("is too large: it has more than %d members in objects", maxMembers)}
	errMemory  = &excessError{fmt.Sprintf("is too large: it takes more than %d MiB of memory", smallResponse>>20)}
	errNumber  = &excessError{fmt.Sprintf("has a number with more than %d digits, or more than %d in its exponent",
		quantity.MaxDigits, quantity.MaxExponentDigits)}
)

// ExceededBound names the bound that a response exceeds, if err reports one. The text contains no
// byte of the response.
func ExceededBound(err error) (string, bool) {
	var excess *excessError
	if !errors.As(err, &excess) {
		return "", false
	}

	return excess.Error(), true
}

// mode is the token type that the scanner is reading.
type mode uint8

const (
	// inStructure is outside of strings and numbers.
	inStructure mode = iota
	// inText is inside a member name, or a string that is not decoded into a quantity.
	inText
	// inQuantity is inside a string that may be decoded into a quantity.
	inQuantity
	// inNumber is inside a number.
	inNumber
)

// level is an open object or array.
type level struct {
	array bool
	// quantities are the members that may hold a quantity.
	quantities members
}

// scanner reads JSON as it arrives, in one pass and in constant memory, and counts what makes
// decoding expensive. It does not validate the JSON: the decoder does. Documents may follow each
// other, such as the events of a watch; each is counted separately.
type scanner struct {
	bytes, elements, members int

	mode   mode
	levels [maxDepth]level
	depth  int

	name memberName
	// naming is set if the next string is a member name, and isName if the current string is one.
	naming, isName bool
	escape         escape
	candidate      quantity.Reader
}

// cost estimates the memory that the current document takes after decoding, in bytes.
func (s *scanner) cost() int {
	return s.bytes + s.elements*costOfElement + s.members*costOfMember
}

// between reports whether no document is open.
func (s *scanner) between() bool { return s.depth == 0 && s.mode == inStructure }

// scan reads the next bytes. It returns an error if a bound is exceeded.
func (s *scanner) scan(p []byte) error {
	for len(p) > 0 {
		n, err := s.step(p)
		if err != nil {
			return err
		}

		s.bytes += n
		p = p[n:]
	}

	return nil
}

// step reads some bytes, or changes the mode, and returns the number of bytes read.
func (s *scanner) step(p []byte) (int, error) {
	switch s.mode {
	case inText:
		return s.text(p), nil
	case inQuantity:
		return 1, s.quantity(p[0])
	case inNumber:
		return s.number(p)
	default:
		return 1, s.structure(p[0])
	}
}

// structure reads a byte outside of strings and numbers.
func (s *scanner) structure(b byte) error {
	switch b {
	case '"':
		return s.beginText()
	case '{', '[':
		return s.open(b == '[')
	case '}', ']':
		s.close()
	case ',':
		return s.comma()
	case ':':
		s.naming = false
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		s.mode, s.candidate = inNumber, quantity.Reader{}
		s.candidate.Take(b)
	}

	return nil
}

func (s *scanner) open(array bool) error {
	if s.depth == maxDepth {
		return errDepth
	}

	next := level{array: array}

	switch {
	case s.depth == 0:
		s.bytes, s.elements, s.members = 0, 0, 0
	case s.levels[s.depth-1].array:
		next.quantities = s.levels[s.depth-1].quantities
	default:
		next.quantities = s.name.quantities()
	}

	s.levels[s.depth] = next
	s.depth++
	s.naming = !array

	if array {
		return s.element()
	}

	return nil
}

func (s *scanner) close() {
	s.depth = max(0, s.depth-1)
	s.naming = false
}

func (s *scanner) comma() error {
	if s.depth == 0 {
		return nil
	}

	if s.levels[s.depth-1].array {
		return s.element()
	}

	s.naming = true

	return nil
}

// element counts an element: one for each array, even if it is empty, and one for each comma.
func (s *scanner) element() error {
	if s.elements++; s.elements > maxElements {
		return ErrElements
	}

	return nil
}

package transport

import (
	"errors"
	"fmt"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/quantity"
)

// excessError names the bound that a response exceeds. Its text contains no byte of the response.
type excessError struct{ text string }

func (e *excessError) Error() string { return e.text }

// ErrPage is the error of a page of a list that would take too much memory. The list can be read with
// fewer objects per page.
var ErrPage error = &excessError{fmt.Sprintf("the response is too large: its page takes more than %d MiB of memory", maxPage>>20)}

var (
	errMemory = &excessError{fmt.Sprintf("the response is too large: it takes more than %d MiB of memory", MaxKept>>20)}
	errDepth  = &excessError{fmt.Sprintf("the response is too large: it has more than %d levels of nesting", maxDepth)}
	errNumber = &excessError{fmt.Sprintf("the response has a number with more than %d digits, or more than %d in its exponent",
		quantity.MaxDigits, quantity.MaxExponentDigits)}
	errURL = &excessError{fmt.Sprintf("an earlier response has a name or a token that is too long: the next request would have a URL of more than %d KiB", maxURL>>10)}
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

// scanner reads JSON as it arrives, in one pass and in constant memory, and estimates the memory that it
// takes when it is decoded. It does not validate the JSON: the decoder does.
type scanner struct {
	// cost is the memory of the response, or of the current event of a watch, as estimated, in bytes.
	cost int64
	// most bounds the cost, and excess is the error of a response that exceeds it.
	most   int64
	excess error
	// events is set if documents follow each other. Each is counted separately.
	events bool

	mode   mode
	levels [maxDepth]level
	depth  int

	name memberName
	// naming is set if the next string is a member name, and isName if the current string is one.
	naming, isName bool
	escape         escape
	candidate      quantity.Reader
}

// scan reads the next bytes. It returns an error if a bound is exceeded.
func (s *scanner) scan(p []byte) error {
	for len(p) > 0 {
		n, err := s.step(p)
		if err != nil {
			return err
		}

		if s.cost += int64(n) * costOfByte; s.cost > s.most {
			return s.excess
		}

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
		s.beginText()
	case '{', '[':
		return s.open(b == '[')
	case '}', ']':
		s.close()
	case ',':
		s.comma()
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
	case s.depth == 0 && s.events:
		s.cost = 0
	case s.depth == 0:
	case s.levels[s.depth-1].array:
		next.quantities = s.levels[s.depth-1].quantities
	default:
		next.quantities = s.name.quantities()
	}

	switch {
	case array:
		s.cost += costOfElement // Of the first one, even if there is none.
	case s.depth == itemDepth && s.levels[s.depth-1].array:
		s.cost += costOfItem
	case s.depth > 0 && s.levels[s.depth-1].array:
		s.cost += costOfObject
	}

	s.levels[s.depth] = next
	s.depth++
	s.naming = !array

	return nil
}

func (s *scanner) close() {
	s.depth = max(0, s.depth-1)
	s.naming = false
}

func (s *scanner) comma() {
	switch {
	case s.depth == 0:
	case s.levels[s.depth-1].array:
		s.cost += costOfElement
	default:
		s.naming = true
	}
}

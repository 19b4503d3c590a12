package providerapi

import (
	"errors"
	"fmt"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/quantity"
)

// The bounds of one answer, or of one event of a watch. What they are compared with was counted on objects of real control planes, with
// their managedFields.
const (
	// maxDepth bounds how deep objects and arrays are nested. A list of VirtualMachines with managedFields has 17 levels.
	maxDepth = 64
	// maxElements bounds the elements of all arrays together. An empty object in an array has three bytes in an answer and up to a
	// thousand in memory. 500 VirtualMachines' metadata have a fifth, and 50 nodes with their images two thirds.
	maxElements = 20_000
	// maxMembers bounds the members of all objects together: a member of two bytes takes a hundred in a map. 500 VirtualMachines'
	// metadata have half.
	maxMembers = 200_000
)

// What the elements and members of an answer take in memory at most, in bytes, beside their texts.
const (
	costOfElement = 1 << 10
	costOfMember  = 128
)

// excessError says which bound an answer exceeds. Its text holds no byte of the answer.
type excessError struct{ what string }

func (e *excessError) Error() string { return "the answer " + e.what }

var (
	errDepth    = &excessError{fmt.Sprintf("is too large: it has more than %d levels of nesting", maxDepth)}
	errElements = &excessError{fmt.Sprintf("is too large: it has more than %d elements in arrays", maxElements)}
	errMembers  = &excessError{fmt.Sprintf("is too large: it has more than %d members in objects", maxMembers)}
	errNumber   = &excessError{fmt.Sprintf("has a number with more than %d digits, or more than %d in its exponent",
		quantity.MaxDigits, quantity.MaxExponentDigits)}
)

// exceedsBounds returns the bound that an answer exceeds, if that is what an error says.
func exceedsBounds(err error) (*excessError, bool) {
	var excess *excessError

	return excess, errors.As(err, &excess)
}

// mode is what the scanner reads.
type mode uint8

const (
	// inStructure is between texts and numbers.
	inStructure mode = iota
	// inText is in a text, or in the name of a member, that is no number.
	inText
	// inTextNumber is in a text, or in a name, that may be a number.
	inTextNumber
	// inNumber is in a number.
	inNumber
)

// level is an object or array that is open.
type level struct {
	array bool
	// entry says that it is an element of an array.
	entry bool
	// texts says that its members are texts, whatever they look like: it is an object called labels or annotations.
	texts bool
}

// scanner reads JSON as it arrives, in one pass and without memory of its own, and counts what makes its decoding expensive. It does not
// judge whether it is JSON: the decoder does. Documents may follow each other, as the events of a watch do; each counts for itself.
type scanner struct {
	bytes, elements, members int

	mode   mode
	levels [maxDepth]level
	depth  int

	// name is the beginning of the name of the member that is read.
	name  [len("annotations")]byte
	named int
	// naming says whether the next text is a name, and isName whether the text that is read is one.
	naming, isName bool
	escape         escape
	candidate      quantity.Reader
}

// cost estimates the memory that the present document takes when it has been decoded, in bytes.
func (s *scanner) cost() int {
	return s.bytes + s.elements*costOfElement + s.members*costOfMember
}

// between says that no document is open.
func (s *scanner) between() bool { return s.depth == 0 && s.mode == inStructure }

// scan reads on. It returns which bound is exceeded.
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

// step reads some bytes, or changes the mode, and returns how many it has read.
func (s *scanner) step(p []byte) (int, error) {
	switch s.mode {
	case inText:
		return s.text(p), nil
	case inTextNumber:
		return 1, s.textNumber(p[0])
	case inNumber:
		return s.number(p)
	default:
		return 1, s.structure(p[0])
	}
}

// structure reads what is neither in a text nor in a number.
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

	if s.depth > 0 {
		outer := &s.levels[s.depth-1]
		next.entry, next.texts = outer.array, !outer.array && !array && s.called("labels", "annotations")
	} else {
		s.bytes, s.elements, s.members = 0, 0, 0
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
	s.naming, s.named = false, 0
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

// element counts an element: one for each array, which may be empty, and one for each comma.
func (s *scanner) element() error {
	if s.elements++; s.elements > maxElements {
		return errElements
	}

	return nil
}

// called says whether the present member has one of these names.
func (s *scanner) called(names ...string) bool {
	for _, name := range names {
		if s.named == len(name) && string(s.name[:s.named]) == name {
			return true
		}
	}

	return false
}

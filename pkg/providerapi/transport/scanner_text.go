package transport

import "github.com/gardener/machine-controller-manager-provider-kubevirt/api/quantity"

// number reads a number up to the byte that ends it, exclusively.
func (s *scanner) number(p []byte) (int, error) {
	for i, b := range p {
		if !isPartOfNumber(b) {
			s.mode = inStructure

			return i, s.checkNumber()
		}

		s.candidate.Take(b)
	}

	return len(p), nil
}

func isPartOfNumber(b byte) bool {
	return b >= '0' && b <= '9' || b == '.' || b == 'e' || b == 'E' || b == '+' || b == '-'
}

// checkNumber checks a complete number.
func (s *scanner) checkNumber() error {
	if s.candidate.Excessive() {
		return errNumber
	}

	return nil
}

func (s *scanner) beginText() {
	s.isName, s.escape, s.mode = s.naming, escape{}, inText

	switch {
	case s.isName:
		s.name = memberName{}
		s.cost += costOfMember
	case s.isQuantity():
		s.mode, s.candidate = inQuantity, quantity.Reader{}
	}
}

// isQuantity reports whether the string that begins here may be decoded into a quantity. Any other
// string may look like one, such as a zone or a node named 12e45678, or the MAC address
// 5254001e3456: it is never parsed.
func (s *scanner) isQuantity() bool {
	if s.depth == 0 {
		return false
	}

	inside := &s.levels[s.depth-1]

	return inside.quantities.every || !inside.array && s.name.in(inside.quantities)
}

// text reads a string that is not a quantity.
func (s *scanner) text(p []byte) int {
	if s.escape.reading() {
		s.escape = escape{}

		return 1
	}

	end := 0
	for end < len(p) && p[end] != '"' && p[end] != '\\' {
		end++
	}

	if s.isName {
		s.name.add(p[:end])
	}

	switch {
	case end == len(p):
		return end
	case p[end] == '"':
		s.mode = inStructure
	default:
		s.escape.begin()
		s.name.unusual = s.name.unusual || s.isName
	}

	return end + 1
}

// quantity reads the next byte of a string that may be a quantity.
func (s *scanner) quantity(b byte) error {
	switch {
	case s.escape.reading():
		if meant, complete := s.escape.take(b); complete {
			s.candidate.Take(meant)
		}
	case b == '"':
		s.mode = inStructure

		return s.checkNumber()
	case b == '\\':
		s.escape.begin()
	default:
		s.candidate.Take(b)
	}

	if !s.candidate.Number() {
		s.mode = inText
	}

	return nil
}

// escape is the current escape sequence.
type escape struct {
	// left is the number of missing hex digits if begun is set; zero before the first byte after
	// the backslash, on which their number depends.
	left  int
	begun bool
	value rune
}

func (e *escape) reading() bool { return e.begun }

func (e *escape) begin() { *e = escape{begun: true} }

// take reads the next byte. When the sequence is complete, it returns the byte that the sequence
// stands for; all characters beyond ASCII share one value.
func (e *escape) take(b byte) (meant byte, complete bool) {
	const (
		hexDigits   = 4
		beyondASCII = 0x80
	)

	if e.left == 0 {
		if b == 'u' {
			e.left = hexDigits

			return 0, false
		}

		*e = escape{}

		return unescaped(b), true
	}

	e.value = e.value<<hexDigits | hexValue(b)
	if e.left--; e.left > 0 {
		return 0, false
	}

	meant = byte(min(e.value, beyondASCII)) //nolint:gosec // The value is between 0 and 128.
	*e = escape{}

	return meant, true
}

func unescaped(b byte) byte {
	switch b {
	case 'n', 'r', 't', 'f':
		return ' '
	default:
		return b // None of b, the quote and the two slashes is part of a number.
	}
}

// hexValue returns the value of a hex digit, and 0 for any other byte: the decoder refuses that.
func hexValue(b byte) rune {
	switch {
	case b >= '0' && b <= '9':
		return rune(b - '0')
	case b >= 'a' && b <= 'f':
		return rune(b-'a') + 10
	case b >= 'A' && b <= 'F':
		return rune(b-'A') + 10
	default:
		return 0
	}
}

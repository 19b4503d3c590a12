package providerapi

import "github.com/gardener/machine-controller-manager-provider-kubevirt/api/quantity"

// number reads a number, and what ends it not.
func (s *scanner) number(p []byte) (int, error) {
	for i, b := range p {
		if !isPartOfNumber(b) {
			s.mode = inStructure

			return i, s.judge()
		}

		s.candidate.Take(b)
	}

	return len(p), nil
}

func isPartOfNumber(b byte) bool {
	return b >= '0' && b <= '9' || b == '.' || b == 'e' || b == 'E' || b == '+' || b == '-'
}

// judge looks at a number that has ended.
func (s *scanner) judge() error {
	if s.candidate.Excessive() {
		return errNumber
	}

	return nil
}

func (s *scanner) beginText() error {
	s.isName, s.escape, s.mode = s.naming, escape{}, inTextNumber
	s.candidate = quantity.Reader{}

	if s.isText() {
		s.mode = inText
	}

	if !s.isName {
		return nil
	}

	s.named = 0
	if s.members++; s.members > maxMembers {
		return errMembers
	}

	return nil
}

// isText says whether the text that begins is none that anything parses as a number, although it may look like one: a short commit hash as
// 12e45678 in a label, an annotation or the value of an environment variable. TestNoQuantityIsTakenForText proves it of all types that are
// decoded.
func (s *scanner) isText() bool {
	if s.depth == 0 {
		return false
	}

	inside := &s.levels[s.depth-1]

	return inside.texts || inside.entry && !inside.array && !s.isName && s.called("value")
}

// text reads a text that is no number.
func (s *scanner) text(p []byte) int {
	if s.escape.reading() {
		s.escape = escape{}

		return 1
	}

	end := 0
	for end < len(p) && p[end] != '"' && p[end] != '\\' {
		end++
	}

	s.keepName(p[:end])

	switch {
	case end == len(p):
		return end
	case p[end] == '"':
		s.mode = inStructure
	default:
		s.beginEscape()
	}

	return end + 1
}

// textNumber reads the next byte of a text that may be a number.
func (s *scanner) textNumber(b byte) error {
	switch {
	case s.escape.reading():
		if meant, complete := s.escape.take(b); complete {
			s.candidate.Take(meant)
		}
	case b == '"':
		s.mode = inStructure

		return s.judge()
	case b == '\\':
		s.beginEscape()
	default:
		s.candidate.Take(b)
		s.keepName([]byte{b})
	}

	if !s.candidate.Number() {
		s.mode = inText
	}

	return nil
}

// beginEscape makes a name with an escape match none: then its members are judged more strictly.
func (s *scanner) beginEscape() {
	s.escape.begin()
	s.named = len(s.name) + 1
}

// keepName keeps as much of a name as is compared.
func (s *scanner) keepName(p []byte) {
	if !s.isName {
		return
	}

	if s.named < len(s.name) {
		copy(s.name[s.named:], p)
	}

	s.named += len(p)
}

// escape is the escape sequence that is read.
type escape struct {
	// left is how many bytes are missing, if begun says that there is one. Of the first byte behind the backslash depends how many follow.
	left  int
	begun bool
	value rune
}

func (e *escape) reading() bool { return e.begun }

func (e *escape) begin() { *e = escape{begun: true} }

// take reads the next byte, and returns what the sequence stands for when it is complete. Everything beyond ASCII is one for all.
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

	meant = byte(min(e.value, beyondASCII)) //nolint:gosec // It is between 0 and 128.
	*e = escape{}

	return meant, true
}

func unescaped(b byte) byte {
	switch b {
	case 'n', 'r', 't', 'f':
		return ' '
	default:
		return b // Of these none is a part of a number: b, the quote and the two slashes.
	}
}

// hexValue returns something for what is no digit too: the decoder refuses that.
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

// Package quantity tells which texts are cheap to parse as a resource.Quantity. The time that apimachinery takes grows with the value of
// the exponent, not with the length of the text: 1234567890123456789012e2000000000 takes hours, and no context ends it. The strict decoder
// of the ProviderSpec (api/v1alpha1) and the gate to provider clusters (pkg/providerapi) ask here. It knows neither of them, and parses
// nothing itself.
package quantity

const (
	// MaxDigits bounds the digits of a number. The largest number of 64 bits has 20.
	MaxDigits = 40
	// MaxExponentDigits bounds the digits of an exponent. With three, parsing, adding and printing a quantity take half a millisecond; with
	// five they take seconds.
	MaxExponentDigits = 3
)

// Excessive says whether a text has the form of a quantity, and too many digits to be parsed. Every other text is parsed, or refused, in no
// time.
func Excessive(text string) bool {
	var r Reader

	for i := range len(text) {
		if r.Take(text[i]); !r.Number() {
			return false
		}
	}

	return r.Excessive()
}

// Reader reads a text byte by byte. The zero Reader is at the beginning of a text.
type Reader struct {
	part             part
	digits, exponent int
}

// part is the part of a quantity that was read last.
type part uint8

const (
	// leading is the white space before the number, which apimachinery trims.
	leading part = iota
	// mantissa is the sign, the digits and the decimal point.
	mantissa
	// suffix is the unit, as in 1Gi, or the letter before an exponent.
	suffix
	// exponent is the exponent with its sign.
	exponent
	// trailing is the white space behind the number.
	trailing
	// other is a text that is no quantity.
	other
)

// Number says whether what was read so far may be the beginning of a quantity. Once it is false, it stays false.
func (r *Reader) Number() bool { return r.part != other }

// Excessive says whether the text that was read is a quantity with too many digits.
func (r *Reader) Excessive() bool {
	return r.Number() && (r.digits > MaxDigits || r.exponent > MaxExponentDigits)
}

// Take reads the next byte.
func (r *Reader) Take(b byte) {
	switch {
	case r.part == other:
	case isSpace(b):
		r.takeSpace()
	case b >= '0' && b <= '9':
		r.takeDigit()
	default:
		r.takeOther(b)
	}
}

func (r *Reader) takeSpace() {
	if r.part != leading {
		r.part = trailing
	}
}

// takeDigit never forgets a digit: the counters of a text of any length stay small enough.
func (r *Reader) takeDigit() {
	switch r.part {
	case leading, mantissa:
		r.part = mantissa
		r.digits++
	case suffix, exponent:
		r.part = exponent
		r.exponent++
	default:
		r.part = other
	}
}

func (r *Reader) takeOther(b byte) {
	switch {
	case r.part == leading && isSign(b), r.part <= mantissa && b == '.':
		r.part = mantissa
	case r.part == suffix && isSign(b):
		r.part = exponent
	case (r.part == mantissa || r.part == suffix) && isSuffix(b):
		r.part = suffix
	default:
		r.part = other
	}
}

// isSpace takes all bytes beyond ASCII for white space, of which Unicode has many characters. At worst a text is read on.
func isSpace(b byte) bool { return b == ' ' || b >= '\t' && b <= '\r' || b >= 0x80 }

func isSign(b byte) bool { return b == '+' || b == '-' }

// isSuffix knows the letters that apimachinery accepts in a unit, in any order (resource.ParseQuantity).
func isSuffix(b byte) bool {
	switch b {
	case 'e', 'E', 'i', 'n', 'u', 'm', 'k', 'K', 'M', 'G', 'T', 'P':
		return true
	default:
		return false
	}
}

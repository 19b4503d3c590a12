// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package quantity recognizes texts that are expensive to parse as a resource.Quantity. The time
// that apimachinery takes grows with the value of the exponent, not with the length of the text:
// 1234567890123456789012e2000000000 takes hours, and no context ends it. The strict decoder of the
// ProviderSpec (api/v1alpha1) and the gateway to provider clusters (pkg/providerapi) call it. It
// must not depend on either of them, and parses nothing itself.
package quantity

const (
	// MaxDigits bounds the digits of a number. The largest 64-bit number has 20.
	MaxDigits = 40
	// MaxExponentDigits bounds the digits of an exponent. With three digits, parsing, adding and
	// printing a quantity take half a millisecond; with five, they take seconds.
	MaxExponentDigits = 3
)

// Excessive reports whether a text has the form of a quantity with too many digits to be parsed.
// Any other text is parsed or refused quickly.
func Excessive(text string) bool {
	var r Reader

	for i := range len(text) {
		if r.Take(text[i]); !r.Number() {
			return false
		}
	}

	return r.Excessive()
}

// Reader reads a text byte by byte. The zero value is at the beginning of a text.
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
	// trailing is the white space after the number.
	trailing
	// other is a text that is not a quantity.
	other
)

// Number reports whether the bytes read so far may be the beginning of a quantity. Once it is
// false, it stays false.
func (r *Reader) Number() bool { return r.part != other }

// Excessive reports whether the text read so far is a quantity with too many digits.
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

// takeDigit counts every digit: the counters stay small enough for a text of any length.
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

// isSpace treats all bytes beyond ASCII as white space, because Unicode has many such characters.
// At worst, reading continues.
func isSpace(b byte) bool { return b == ' ' || b >= '\t' && b <= '\r' || b >= 0x80 }

func isSign(b byte) bool { return b == '+' || b == '-' }

// isSuffix reports whether apimachinery accepts a letter in a unit, in any order
// (resource.ParseQuantity).
func isSuffix(b byte) bool {
	switch b {
	case 'e', 'E', 'i', 'n', 'u', 'm', 'k', 'K', 'M', 'G', 'T', 'P':
		return true
	default:
		return false
	}
}

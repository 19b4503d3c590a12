// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/quantity"
)

// estimate returns the memory that a JSON text takes when it is decoded, in bytes. Its error is that of a
// text that takes long to decode. It does not validate the text: the decoder does.
func estimate(text []byte) (cost int64, _ error) {
	e := estimator{cost: int64(len(text)) * costOfByte}

	for len(text) > 0 {
		n, err := e.token(text)
		if err != nil {
			return e.cost, err
		}

		text = text[n:]
	}

	return e.cost, nil
}

// estimator reads a text from its beginning to its end.
type estimator struct {
	cost int64
	// levels are the open objects and arrays.
	levels []level
	// name is the name of the latest member.
	name memberName
}

// level is an open object or array.
type level struct {
	array bool
	// quantities are the members that may hold a quantity.
	quantities members
}

// inside returns the innermost open object or array; an empty object outside of all.
func (e *estimator) inside() level {
	if len(e.levels) == 0 {
		return level{}
	}

	return e.levels[len(e.levels)-1]
}

// token reads the next token, or a part of what is none, and returns its length.
func (e *estimator) token(text []byte) (int, error) {
	switch b := text[0]; {
	case b == '{' || b == '[':
		return 1, e.open(b == '[')
	case b == '}' || b == ']':
		e.levels = e.levels[:max(0, len(e.levels)-1)]
	case b == ',' && e.inside().array:
		e.cost += costOfElement
	case b == '"':
		return e.text(text)
	case b == '-' || b >= '0' && b <= '9':
		n := len(text) - len(bytes.TrimLeft(text, "+-.0123456789eE"))

		return n, checkQuantity(string(text[:n]))
	}

	return 1, nil
}

func (e *estimator) open(array bool) error {
	if len(e.levels) == maxDepth {
		return errDepth
	}

	outer := e.inside()
	next := level{array: array, quantities: outer.quantities}

	if !outer.array {
		next.quantities = e.name.quantities()
	}

	switch {
	case array:
		e.cost += costOfElement // Of the first one, even if there is none.
	case outer.array && len(e.levels) == itemDepth:
		e.cost += costOfItem
	case outer.array:
		e.cost += costOfObject
	}

	e.levels = append(e.levels, next)

	return nil
}

// text reads a string.
func (e *estimator) text(text []byte) (int, error) {
	end := endOfText(text)
	inside := e.inside()

	switch {
	case !inside.array && bytes.HasPrefix(bytes.TrimLeft(text[end:], " \t\r\n"), []byte(":")):
		e.cost += costOfMember
		e.name = text[:end]
	case inside.quantities.every || !inside.array && e.name.in(inside.quantities):
		var value string
		if json.Unmarshal(text[:end], &value) == nil {
			return end, checkQuantity(value)
		}
	}

	return end, nil
}

// endOfText returns the length of the string at the beginning of a text, with its quotes.
func endOfText(text []byte) int {
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}

	return len(text)
}

func checkQuantity(text string) error {
	if quantity.Excessive(text) {
		return errNumber
	}

	return nil
}

// memberName is the name of a member, in quotes.
type memberName []byte

// key returns the name as it is in quantities: decoders of KubeVirt's types ignore case (encoding/json).
// A name with an escape sequence or a character beyond ASCII may be equal to any other name for a decoder.
func (n memberName) key() (key string, unusual bool) {
	unusual = bytes.ContainsFunc(n, func(r rune) bool { return r == '\\' || r >= utf8.RuneSelf })

	return string(bytes.ToLower(bytes.Trim(n, `"`))), unusual
}

// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

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
	errMemory = &excessError{fmt.Sprintf("the response is too large: it takes more than %d MiB of memory", maxKept>>20)}
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

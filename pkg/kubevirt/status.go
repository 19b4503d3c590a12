package kubevirt

import (
	"errors"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gardener/machine-controller-manager/pkg/util/provider/machinecodes/codes"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/machinecodes/status"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// maxText bounds an error's text, in bytes: machine-controller-manager compares old and new texts letter by letter.
const maxText = 1000

// statusFrom turns an error into the one that machine-controller-manager understands; nil stays nil. It is the only place in
// the program that chooses a machine code. machine-controller-manager asks again within seconds after Uninitialized (on
// creation), Unavailable, DeadlineExceeded, Aborted and Unknown, and after minutes for every other code.
func statusFrom(err error) error {
	if err == nil {
		return nil
	}

	return status.Error(codeOf(err), text(err.Error()))
}

func codeOf(err error) codes.Code {
	for _, mapping := range []struct {
		sentinel error
		code     codes.Code
	}{
		{spi.ErrInvalid, codes.InvalidArgument},
		{spi.ErrNotFound, codes.NotFound},
		{spi.ErrForeign, codes.AlreadyExists},
		{spi.ErrUninitialized, codes.Uninitialized},
		{spi.ErrConflict, codes.Aborted},
		{spi.ErrExhausted, codes.ResourceExhausted},
		{spi.ErrUnauthenticated, codes.Unauthenticated},
		{spi.ErrForbidden, codes.PermissionDenied},
		{spi.ErrPrecondition, codes.FailedPrecondition},
		{spi.ErrUnavailable, codes.Unavailable},
		{spi.ErrTimeout, codes.DeadlineExceeded},
	} {
		if errors.Is(err, mapping.sentinel) {
			return mapping.code
		}
	}

	return codes.Unknown
}

// text makes a message fit to travel: machine-controller-manager reads code and message back from the error's text, between
// square brackets (pkg/util/provider/machinecodes/status), so the message must have none of its own.
func text(message string) string {
	message = strings.Map(func(r rune) rune {
		switch {
		case r == '[':
			return '('
		case r == ']':
			return ')'
		case unicode.IsControl(r):
			return ' '
		default:
			return r
		}
	}, message)

	return cut(message)
}

// cut shortens a message to maxText bytes, between two characters.
func cut(message string) string {
	const ellipsis = " …"

	if len(message) <= maxText {
		return message
	}

	end := maxText - len(ellipsis)
	for end > 0 && !utf8.RuneStart(message[end]) {
		end--
	}

	return message[:end] + ellipsis
}

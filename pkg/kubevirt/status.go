package kubevirt

import (
	"errors"
	"regexp"
	"strings"

	"github.com/gardener/machine-controller-manager/pkg/util/provider/machinecodes/codes"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/machinecodes/status"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/statustext"
)

// statusFrom turns an error into the one that machine-controller-manager understands; nil stays nil. It is the only place in
// the program that chooses a machine code. machine-controller-manager asks again within seconds after Uninitialized (on
// creation), Unavailable, DeadlineExceeded, Aborted and Unknown, and after minutes for every other code.
func statusFrom(err error) error {
	if err == nil {
		return nil
	}

	m := meaningOf(err)

	return status.Error(m.code, statustext.Fit(m.lead(err.Error())))
}

// meaning is what a sentinel says to machine-controller-manager, and to people: the token leads the text, unless the error has one
// of its own. docs/troubleshooting.md has a row for each.
type meaning struct {
	sentinel error
	code     codes.Code
	token    string
}

var meanings = []meaning{
	{spi.ErrInvalid, codes.InvalidArgument, "InvalidInput"},
	{spi.ErrNotFound, codes.NotFound, "MachineNotFound"},
	{spi.ErrForeign, codes.AlreadyExists, "ForeignObject"},
	{spi.ErrUninitialized, codes.Uninitialized, "NotScheduledYet"},
	{spi.ErrConflict, codes.Aborted, "OperationInProgress"},
	// Without a diagnosis only a quota says so: the API server's, when something is created.
	{spi.ErrExhausted, codes.ResourceExhausted, "QuotaExceeded"},
	{spi.ErrUnauthenticated, codes.Unauthenticated, "CredentialsRefused"},
	{spi.ErrForbidden, codes.PermissionDenied, "PermissionDenied"},
	{spi.ErrPrecondition, codes.FailedPrecondition, "PreconditionFailed"},
	{spi.ErrUnavailable, codes.Unavailable, "ProviderUnavailable"},
	{spi.ErrTimeout, codes.DeadlineExceeded, "TimedOut"},
}

// unknown is the meaning of an error without a sentinel, which is a fault of this program.
var unknown = meaning{errors.New("unknown"), codes.Unknown, "Unknown"}

func meaningOf(err error) meaning {
	for _, m := range meanings {
		if errors.Is(err, m.sentinel) {
			return m
		}
	}

	return unknown
}

// ownToken matches a text that leads with a token already: a diagnosis.
var ownToken = regexp.MustCompile(`^[A-Z][a-z]+([A-Z][a-z]+)*: `)

// lead makes the text begin with a token, in place of the sentinel's words.
func (m meaning) lead(message string) string {
	if rest, ok := strings.CutPrefix(message, m.sentinel.Error()); ok {
		return m.token + rest
	}

	if ownToken.MatchString(message) {
		return message
	}

	return m.token + ": " + message
}

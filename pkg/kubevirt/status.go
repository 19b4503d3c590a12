package kubevirt

import (
	"errors"
	"regexp"
	"strings"

	"github.com/gardener/machine-controller-manager/pkg/util/provider/machinecodes/codes"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/machinecodes/status"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/machineutils"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/statustext"
)

// statusFrom turns an error into the one that machine-controller-manager understands; nil stays nil. It is the only place in
// the program that chooses a machine code. The kubeconfig is the one that the call used.
func statusFrom(err error, used kubeconfigSource) error {
	if err == nil {
		return nil
	}

	m := meaningOf(err)

	return status.Error(m.code, m.text(err, used))
}

// meaning is what a sentinel says to machine-controller-manager, and to people: the token leads the text, unless the error has one
// of its own. docs/troubleshooting.md has a row for each token, and one for each code's retry.
type meaning struct {
	sentinel error
	code     codes.Code
	token    string
	retry    retry
}

// retry is when machine-controller-manager asks again after a code, by the method that returned it
// (pkg/util/provider/machinecontroller: triggerCreationFlow and machineCreateErrorHandler, initializeMachine, deleteVM).
type retry struct {
	// create is after GetMachineStatus and CreateMachine; nothing if it is no failure there, and the next method is called at once.
	create, initialize, remove machineutils.RetryPeriod
}

var (
	soon  = retry{machineutils.ShortRetry, machineutils.ShortRetry, machineutils.ShortRetry}
	later = retry{machineutils.MediumRetry, machineutils.ShortRetry, machineutils.LongRetry}
	// exhausted is what --resource-exhausted-retry is by default.
	exhausted = retry{machineutils.LongRetry, machineutils.ShortRetry, machineutils.LongRetry}
	// absent is followed by CreateMachine, and on deletion by the end of the Node; unready by InitializeMachine.
	absent  = retry{0, machineutils.ShortRetry, machineutils.ShortRetry}
	unready = retry{0, machineutils.ShortRetry, machineutils.LongRetry}
)

var meanings = []meaning{
	{spi.ErrInvalid, codes.InvalidArgument, "InvalidInput", later},
	{spi.ErrNotFound, codes.NotFound, "MachineNotFound", absent},
	{spi.ErrForeign, codes.AlreadyExists, "ForeignObject", later},
	{spi.ErrUninitialized, codes.Uninitialized, "NotScheduledYet", unready},
	{spi.ErrConflict, codes.Aborted, "OperationInProgress", soon},
	// Without a diagnosis only a quota says so: the API server's, when something is created.
	{spi.ErrExhausted, codes.ResourceExhausted, "QuotaExceeded", exhausted},
	{spi.ErrUnauthenticated, codes.Unauthenticated, "CredentialsRefused", later},
	{spi.ErrForbidden, codes.PermissionDenied, "PermissionDenied", later},
	{spi.ErrPrecondition, codes.FailedPrecondition, "PreconditionFailed", later},
	{spi.ErrAddressChanged, codes.FailedPrecondition, "AddressChanged", later},
	{spi.ErrUnavailable, codes.Unavailable, "ProviderUnavailable", soon},
	{spi.ErrTimeout, codes.DeadlineExceeded, "TimedOut", soon},
}

// unknown is the meaning of an error without a sentinel, which is a fault of this program.
var unknown = meaning{errors.New("unknown"), codes.Unknown, "Unknown", soon}

func meaningOf(err error) meaning {
	for _, m := range meanings {
		if errors.Is(err, m.sentinel) {
			return m
		}
	}

	return unknown
}

// failure says whether somebody has to know of it. What machine-controller-manager goes on from, and what another operation ends, is
// none.
func (m meaning) failure() bool {
	return m.retry.create > 0 && m.code != codes.Aborted
}

// ownToken matches a text that leads with a token already: a diagnosis.
var ownToken = regexp.MustCompile(`^[A-Z][a-z]+([A-Z][a-z]+)*: `)

// text returns what an error says, fit to travel: a token leads it and a remedy ends it, however long the rest is.
func (m meaning) text(err error, used kubeconfigSource) string {
	token, message, remedy := m.parts(err, used)

	return statustext.FitWithRemedy(token+": "+message, remedy)
}

// parts returns the token, what is wrong, and what to do about it.
func (m meaning) parts(err error, used kubeconfigSource) (token, message, remedy string) {
	token, message, _ = strings.Cut(m.lead(err.Error()), ": ")
	remedy = m.remedy(err, token, used)
	message = strings.TrimSuffix(message, "; "+remedy)

	if isKubeconfigFault(err) {
		message = used.String() + ": " + message
	}

	return token, message, remedy
}

// lead makes the text begin with a token, in place of the sentinel's words.
func (m meaning) lead(message string) string {
	if rest, ok := strings.CutPrefix(message, m.sentinel.Error()+": "); ok {
		return m.token + ": " + rest
	}

	if ownToken.MatchString(message) {
		return message
	}

	return m.token + ": " + message
}

// isKubeconfigFault says whether an error is to be remedied in the Secret with the kubeconfig.
func isKubeconfigFault(err error) bool {
	var fault *spi.KubeconfigError

	return errors.As(err, &fault) || errors.Is(err, spi.ErrUnauthenticated)
}

// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package kubevirt

import (
	"github.com/gardener/machine-controller-manager/pkg/util/provider/machinecodes/codes"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/machinecodes/status"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/machineutils"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/machineclass"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/statustext"
)

// statusFrom returns an error in the form that machine-controller-manager parses: the machine code,
// and a text that begins with the reason and ends with the remedy. nil stays nil. It is the only
// place that chooses a machine code. source is the kubeconfig that the call used.
func statusFrom(err error, source machineclass.KubeconfigSource) error {
	if err == nil {
		return nil
	}

	e := completed(err, source)

	return status.Error(CodeOf(e), statustext.FitWithRemedy(e.Reason+": "+e.Message, e.Remedy))
}

// completed returns an error with all parts of its text: the default reason if it has none, the remedy
// for its readers, and the source of its kubeconfig if the kubeconfig is at fault.
func completed(err error, source machineclass.KubeconfigSource) *spi.Error {
	e := *spi.AsError(err)

	if e.Reason == "" {
		e.Reason = meaningOf(err).reason
	}

	if e.Kubeconfig || e.Kind == spi.ErrUnauthenticated { //nolint:errorlint // The kind is a sentinel itself.
		e.Message = source.String() + ": " + e.Message
	}

	e.Remedy = remedyOf(&e, source)

	return &e
}

// CodeOf returns the machine code that the driver returns for an error.
func CodeOf(err error) codes.Code { return meaningOf(err).code }

// meaning is how machine-controller-manager treats a kind of error. The reason is the default for
// the kind. docs/troubleshooting.md has a row for each reason, and one for each code's retry.
type meaning struct {
	kind   error
	code   codes.Code
	reason string
	retry  retry
}

// retry is how long machine-controller-manager waits before it calls the driver again, by the
// method that returned the code (pkg/util/provider/machinecontroller: triggerCreationFlow and
// machineCreateErrorHandler, initializeMachine, deleteVM).
type retry struct {
	// create applies to GetMachineStatus and CreateMachine. It is zero for an expected response,
	// after which the next method is called immediately.
	create, initialize, remove machineutils.RetryPeriod
}

var (
	soon  = retry{machineutils.ShortRetry, machineutils.ShortRetry, machineutils.ShortRetry}
	later = retry{machineutils.MediumRetry, machineutils.ShortRetry, machineutils.LongRetry}
	// exhausted is the default of --resource-exhausted-retry.
	exhausted = retry{machineutils.LongRetry, machineutils.ShortRetry, machineutils.LongRetry}
	// absent is followed by CreateMachine, and on deletion by the deletion of the Node; unready is
	// followed by InitializeMachine.
	absent  = retry{0, machineutils.ShortRetry, machineutils.ShortRetry}
	unready = retry{0, machineutils.ShortRetry, machineutils.LongRetry}
)

var meanings = []meaning{
	{spi.ErrInvalid, codes.InvalidArgument, "InvalidInput", later},
	{spi.ErrNotFound, codes.NotFound, "MachineNotFound", absent},
	{spi.ErrForeign, codes.AlreadyExists, "ForeignObject", later},
	{spi.ErrUninitialized, codes.Uninitialized, "NotScheduledYet", unready},
	{spi.ErrConflict, codes.Aborted, "OperationInProgress", soon},
	// Without a diagnosis, the API server has refused a creation because of a quota.
	{spi.ErrExhausted, codes.ResourceExhausted, "QuotaExceeded", exhausted},
	{spi.ErrUnauthenticated, codes.Unauthenticated, "CredentialsRefused", later},
	{spi.ErrForbidden, codes.PermissionDenied, "PermissionDenied", later},
	{spi.ErrPrecondition, codes.FailedPrecondition, "PreconditionFailed", later},
	{spi.ErrAddressChanged, codes.FailedPrecondition, "AddressChanged", later},
	{spi.ErrUnavailable, codes.Unavailable, "ProviderUnavailable", soon},
	{spi.ErrTimeout, codes.DeadlineExceeded, "TimedOut", soon},
}

// unknown is the meaning of an error without a kind, which is a bug of the driver.
var unknown = meaning{nil, codes.Unknown, "Unknown", soon}

func meaningOf(err error) meaning {
	kind := spi.AsError(err).Kind

	for _, m := range meanings {
		if m.kind == kind { //nolint:errorlint // Both are sentinels.
			return m
		}
	}

	return unknown
}

// failure reports whether the error is of interest to an operator. Expected responses, after which
// machine-controller-manager calls the next method, and conflicts with another operation are not
// failures.
func (m meaning) failure() bool {
	return m.retry.create > 0 && m.code != codes.Aborted
}

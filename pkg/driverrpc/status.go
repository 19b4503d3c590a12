package driverrpc

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/gardener/machine-controller-manager/pkg/util/provider/machinecodes/codes"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/machinecodes/status"
	grpccodes "google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	driverv1 "github.com/gardener/machine-controller-manager-provider-kubevirt/api/driver/v1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/statustext"
)

// TokenUnavailable is the prefix of the error for a call that the driver did not answer.
// docs/troubleshooting.md has a row for it.
const TokenUnavailable = "DriverUnavailable"

// statusOf returns the gRPC status for an error of a driver. failure contains the response that the
// driver returned with it, if any.
func statusOf(err error, failure *driverv1.MachineError) error {
	answer := readMachineStatus(err)
	failure.MachineCode = uint32(answer.Code())

	carrier := grpcstatus.New(carrierCode(answer.Code()), strings.ToValidUTF8(answer.Message(), "�"))

	detailed, err := carrier.WithDetails(failure)
	if err != nil {
		return fmt.Errorf("add the machine code: %w", err)
	}

	return detailed.Err()
}

// readMachineStatus takes the code and message from the error itself if possible: parsing them from
// its text, as machine-controller-manager does, would lose the text after a bracket.
func readMachineStatus(err error) *status.Status {
	var own *status.Status
	if errors.As(err, &own) {
		return own
	}

	read, _ := status.FromError(err) // Code and message are set in either case.

	return read
}

// carrierCode returns the closest gRPC code: gRPC has no Uninitialized,
// and no error with the code OK.
func carrierCode(code codes.Code) grpccodes.Code {
	switch {
	case code == codes.OK:
		return grpccodes.Unknown
	case code > codes.Unauthenticated:
		return grpccodes.FailedPrecondition
	default:
		return grpccodes.Code(code)
	}
}

// machineErrorOf returns the driver's own error from a gRPC error; nil if
// the error is not the driver's.
func machineErrorOf(err error) *driverv1.MachineError {
	for _, detail := range grpcstatus.Convert(err).Details() {
		if failure, ok := detail.(*driverv1.MachineError); ok {
			return failure
		}
	}

	return nil
}

// machineStatusOf returns the error for machine-controller-manager: the driver's own, or that the
// driver gave no usable response. Only the driver can judge a machine. gRPC's own ResourceExhausted
// would make cluster-autoscaler try another zone, and its Unimplemented would make
// machine-controller-manager create the machine again.
func machineStatusOf(fullMethod string, err error) (*driverv1.MachineError, error) {
	if err == nil {
		return nil, nil //nolint:nilnil // Success has neither.
	}

	carrier := grpcstatus.Convert(err)
	if failure := machineErrorOf(err); failure != nil {
		if err := requireCode(fullMethod, failure.GetMachineCode()); err != nil {
			return nil, err
		}

		return failure, status.Error(codes.Code(failure.GetMachineCode()), statustext.Fit(carrier.Message()))
	}

	return nil, unavailable(fullMethod, fmt.Errorf("%s: %s", carrier.Code(), carrier.Message()))
}

// unavailableRemedy ends the text of an error that is not the driver's.
const unavailableRemedy = "repair the driver, or the network path to it; MCM retries within seconds"

func unavailable(fullMethod string, err error) error {
	text := fmt.Sprintf("%s: %s was not answered by the driver: %v", TokenUnavailable, path.Base(fullMethod), err)

	return status.Error(codes.Unavailable, statustext.FitWithRemedy(text, unavailableRemedy))
}

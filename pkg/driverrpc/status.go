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

// TokenUnavailable leads the text of an error that stands for the lack of an answer. docs/troubleshooting.md has a row for it.
const TokenUnavailable = "DriverUnavailable"

// statusOf returns the status of gRPC for what a driver answered with an error. failure has the response that came along, if any.
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

// readMachineStatus takes code and message from the error itself if it can: reading them back from its text, as
// machine-controller-manager does, would lose what stands behind a bracket.
func readMachineStatus(err error) *status.Status {
	var own *status.Status
	if errors.As(err, &own) {
		return own
	}

	read, _ := status.FromError(err) // Code and message are set in either case.

	return read
}

// carrierCode returns the code of gRPC that comes closest: gRPC has no Uninitialized, and no error with the code OK.
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

// machineErrorOf returns the driver's own answer in an error of gRPC; nil if the error is not the driver's.
func machineErrorOf(err error) *driverv1.MachineError {
	for _, detail := range grpcstatus.Convert(err).Details() {
		if failure, ok := detail.(*driverv1.MachineError); ok {
			return failure
		}
	}

	return nil
}

// machineStatusOf returns what machine-controller-manager reads: what the driver said, or that it gave no answer to work with. Only the driver can
// say something about a machine. A ResourceExhausted of gRPC's own would make cluster-autoscaler try another zone, and an Unimplemented
// would make machine-controller-manager create the machine again.
func machineStatusOf(fullMethod string, err error) (*driverv1.MachineError, error) {
	if err == nil {
		return nil, nil //nolint:nilnil // No failure is no error.
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

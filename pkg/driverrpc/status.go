// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

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

// TokenUnavailable is the prefix of the error for a call without a response from the driver.
// docs/troubleshooting.md has a row for it.
const TokenUnavailable = "DriverUnavailable"

// TokenInvalid is the prefix of the error for a response that machine-controller-manager cannot
// handle. It trusts its drivers: it dereferences the response that comes with Uninitialized without
// a nil check, writes an empty provider ID to the Machine, and treats an unknown code as a
// permanent failure. docs/troubleshooting.md has a row for it.
const TokenInvalid = "DriverAnswerInvalid"

// toGRPC returns the gRPC error for an error of a driver. machineError contains the response that
// accompanies the error, if any.
func toGRPC(err error, machineError *driverv1.MachineError) error {
	machineStatus := readMachineStatus(err)
	machineError.MachineCode = uint32(machineStatus.Code())

	grpcStatus := grpcstatus.New(grpcCode(machineStatus.Code()), strings.ToValidUTF8(machineStatus.Message(), "�"))

	detailed, err := grpcStatus.WithDetails(machineError)
	if err != nil {
		return fmt.Errorf("add the machine code: %w", err)
	}

	return detailed.Err()
}

// readMachineStatus takes the code and message from the error itself if possible: parsing them from
// its text, as machine-controller-manager does, would lose the text after a bracket.
func readMachineStatus(err error) *status.Status {
	var machineStatus *status.Status
	if !errors.As(err, &machineStatus) {
		machineStatus, _ = status.FromError(err) // It sets code and message in either case.
	}

	return machineStatus
}

// grpcCode returns the gRPC code that is closest to a machine code: gRPC has no Uninitialized, and
// no error with the code OK.
func grpcCode(code codes.Code) grpccodes.Code {
	switch {
	case code == codes.OK:
		return grpccodes.Unknown
	case code > codes.Unauthenticated:
		return grpccodes.FailedPrecondition
	default:
		return grpccodes.Code(code)
	}
}

// machineErrorOf returns the driver's own error from a gRPC error, or nil if the error does not
// come from the driver.
func machineErrorOf(err error) *driverv1.MachineError {
	for _, detail := range grpcstatus.Convert(err).Details() {
		if machineError, ok := detail.(*driverv1.MachineError); ok {
			return machineError
		}
	}

	return nil
}

// fromGRPC returns the error for machine-controller-manager, and the driver's own error if there is
// one. It keeps the driver's code and message. Every other gRPC error becomes Unavailable, since
// it says nothing about the machine: a ResourceExhausted of gRPC would make cluster-autoscaler try
// another zone, and an Unimplemented would make machine-controller-manager recreate the machine.
func fromGRPC(fullMethod string, err error) (*driverv1.MachineError, error) {
	if err == nil {
		return nil, nil //nolint:nilnil // Success has neither.
	}

	grpcStatus := grpcstatus.Convert(err)
	machineError := machineErrorOf(err)
	if machineError == nil {
		return nil, unavailable(fullMethod, fmt.Errorf("%s: %s", grpcStatus.Code(), grpcStatus.Message()))
	}

	switch code := codes.Code(machineError.GetMachineCode()); {
	case code == codes.OK:
		return nil, invalidResponse(fullMethod, "an error with machine code 0 (OK)")
	case code > codes.Uninitialized:
		return nil, invalidResponse(fullMethod, fmt.Sprintf("an error with machine code %d, which does not exist", code))
	default:
		return machineError, status.Error(code, statustext.Fit(grpcStatus.Message()))
	}
}

func unavailable(fullMethod string, err error) error {
	text := fmt.Sprintf("%s: %s got no response from the driver: %v", TokenUnavailable, path.Base(fullMethod), err)
	remedy := "repair the driver, or the network path to it; MCM retries within seconds"

	return status.Error(codes.Unavailable, statustext.FitWithRemedy(text, remedy))
}

func invalidResponse(fullMethod, response string) error {
	text := fmt.Sprintf("%s: %s returned %s", TokenInvalid, path.Base(fullMethod), response)
	remedy := "run a driver of the same version as the machine controller; MCM retries within seconds"

	return status.Error(codes.Unavailable, statustext.FitWithRemedy(text, remedy))
}

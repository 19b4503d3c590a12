// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package driverrpc_test

import (
	"context"
	"net"
	"reflect"
	"testing"

	"github.com/gardener/machine-controller-manager/pkg/util/provider/machinecodes/codes"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/machinecodes/status"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	grpccodes "google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	driverv1 "github.com/gardener/machine-controller-manager-provider-kubevirt/api/driver/v1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/driverrpc"
)

// wireDriver is a MachineDriver of another program: it sends responses that no driver of this
// repository would send.
type wireDriver struct {
	driverv1.UnimplementedMachineDriverServer

	resp         proto.Message
	machineError *driverv1.MachineError
}

// respond returns the scripted error, or the scripted response if it has the type of this method,
// or else an empty response.
func respond[R any](w *wireDriver) (*R, error) {
	if w.machineError != nil {
		grpcError, err := grpcstatus.New(grpccodes.FailedPrecondition, "NotScheduledYet: wait").WithDetails(w.machineError)
		if err != nil {
			return nil, err
		}

		return nil, grpcError.Err()
	}

	if resp, ok := any(w.resp).(*R); ok {
		return resp, nil
	}

	return new(R), nil
}

func (w *wireDriver) CreateMachine(context.Context, *driverv1.CreateMachineRequest) (*driverv1.CreateMachineResponse, error) {
	return respond[driverv1.CreateMachineResponse](w)
}

func (w *wireDriver) InitializeMachine(context.Context, *driverv1.InitializeMachineRequest) (*driverv1.InitializeMachineResponse, error) {
	return respond[driverv1.InitializeMachineResponse](w)
}

func (w *wireDriver) DeleteMachine(context.Context, *driverv1.DeleteMachineRequest) (*driverv1.DeleteMachineResponse, error) {
	return respond[driverv1.DeleteMachineResponse](w)
}

func (w *wireDriver) GetMachineStatus(context.Context, *driverv1.GetMachineStatusRequest) (*driverv1.GetMachineStatusResponse, error) {
	return respond[driverv1.GetMachineStatusResponse](w)
}

func (w *wireDriver) ListMachines(context.Context, *driverv1.ListMachinesRequest) (*driverv1.ListMachinesResponse, error) {
	return respond[driverv1.ListMachinesResponse](w)
}

func (w *wireDriver) GetVolumeIDs(context.Context, *driverv1.GetVolumeIDsRequest) (*driverv1.GetVolumeIDsResponse, error) {
	return respond[driverv1.GetVolumeIDsResponse](w)
}

// callWire returns the result of a client of another program.
func callWire(t *testing.T, method string, w *wireDriver) outcome {
	t.Helper()

	socket := socketOf(t)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", socket)
	require.NoError(t, err)

	server := grpc.NewServer()
	driverv1.RegisterMachineDriverServer(server, w)

	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()

	t.Cleanup(func() {
		server.Stop()
		require.NoError(t, <-served)
	})

	return methods(dial(t, socket))[method](t.Context())
}

// TestInvalidResponses has a driver send responses that machine-controller-manager would
// dereference, write to a Machine, or treat as a permanent failure.
func TestInvalidResponses(t *testing.T) {
	t.Parallel()

	const unknown = 4294967295

	incomplete := &driverv1.MachineError_GetMachineStatus{GetMachineStatus: &driverv1.GetMachineStatusResponse{NodeName: "m"}}
	ofCreate := &driverv1.MachineError_CreateMachine{CreateMachine: &driverv1.CreateMachineResponse{ProviderId: "kubevirt://m", NodeName: "m"}}

	tests := map[string]struct {
		reason       string
		method       string
		resp         proto.Message
		machineError *driverv1.MachineError
		defect       string // the part of the error that names the defect; empty if the response is valid
	}{
		"StatusUninitialized": {
			reason:       "machine-controller-manager dereferences the response",
			method:       "GetMachineStatus",
			machineError: &driverv1.MachineError{MachineCode: 17},
			defect:       "machine code 17 (Uninitialized) without a response",
		},
		"StatusUninitializedOfCreate": {
			reason:       "the response belongs to another method",
			method:       "GetMachineStatus",
			machineError: &driverv1.MachineError{MachineCode: 17, Response: ofCreate},
			defect:       "machine code 17 (Uninitialized) without a response",
		},
		"StatusUninitializedIncomplete": {
			reason:       "it is written to the Machine",
			method:       "GetMachineStatus",
			machineError: &driverv1.MachineError{MachineCode: 17, Response: incomplete},
			defect:       "machine code 17 (Uninitialized) without a provider ID",
		},
		"StatusEmpty": {
			reason: "both are written to the Machine",
			method: "GetMachineStatus",
			defect: "success without a provider ID or a node name",
		},
		"StatusOK": {
			reason:       "an error cannot be OK",
			method:       "GetMachineStatus",
			machineError: &driverv1.MachineError{},
			defect:       "machine code 0 (OK)",
		},
		"StatusUnknownCode": {
			reason:       "machine-controller-manager would retry only after minutes",
			method:       "GetMachineStatus",
			machineError: &driverv1.MachineError{MachineCode: unknown},
			defect:       "machine code 4294967295, which does not exist",
		},
		"CreateEmpty": {reason: "both are written to the Machine", method: "CreateMachine", defect: "success without a provider ID or a node name"},
		"CreateWithoutNode": {
			reason: "it becomes a label of the Machine",
			method: "CreateMachine",
			resp:   &driverv1.CreateMachineResponse{ProviderId: "kubevirt://m"},
			defect: "success without a node name",
		},
		"CreateNextCode": {
			reason:       "the first code that does not exist",
			method:       "CreateMachine",
			machineError: &driverv1.MachineError{MachineCode: 18},
			defect:       "machine code 18",
		},
		"InitializeEmpty": {reason: "no machine was initialized", method: "InitializeMachine", defect: "success without a provider ID or a node name"},
		"InitializeOK":    {reason: "an error cannot be OK", method: "InitializeMachine", machineError: &driverv1.MachineError{}, defect: "machine code 0 (OK)"},
		"DeleteOK":        {reason: "the machine may still exist", method: "DeleteMachine", machineError: &driverv1.MachineError{}, defect: "machine code 0 (OK)"},
		"DeleteUnknownCode": {
			reason:       "the machine may still exist",
			method:       "DeleteMachine",
			machineError: &driverv1.MachineError{MachineCode: unknown},
			defect:       "machine code 4294967295",
		},
		"ListWithoutID": {
			reason: "machine-controller-manager deletes unknown machines",
			method: "ListMachines",
			resp:   &driverv1.ListMachinesResponse{MachineList: map[string]string{"": "m"}},
			defect: "success without a provider ID of a listed machine",
		},
		"ListWithoutName": {
			reason: "machine-controller-manager deletes unknown machines",
			method: "ListMachines",
			resp:   &driverv1.ListMachinesResponse{MachineList: map[string]string{"kubevirt://m": ""}},
			defect: "success without a node name of a listed machine",
		},
		"VolumesOK": {reason: "an error cannot be OK", method: "GetVolumeIDs", machineError: &driverv1.MachineError{}, defect: "machine code 0 (OK)"},

		"DeleteEmpty":  {reason: "success alone means that the machine is gone", method: "DeleteMachine"},
		"ListEmpty":    {reason: "there may be no machine", method: "ListMachines"},
		"VolumesEmpty": {reason: "the driver may own none of the volumes", method: "GetVolumeIDs"},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			got := callWire(t, tc.method, &wireDriver{resp: tc.resp, machineError: tc.machineError})

			if tc.defect == "" {
				require.NoError(t, got.err, tc.reason)

				return
			}

			require.True(t, reflect.ValueOf(got.resp).IsNil(), tc.reason)

			read, ok := status.FromError(got.err)
			require.True(t, ok, tc.reason)
			require.Equal(t, codes.Unavailable, read.Code(), tc.reason)
			require.Contains(t, read.Message(), driverrpc.TokenInvalid+": "+tc.method+" returned ")
			require.Contains(t, read.Message(), tc.defect, tc.reason)
		})
	}
}

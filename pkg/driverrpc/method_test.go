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

// wireAnswers is a MachineDriver of another program: it sends responses that no driver of this
// repository would send.
type wireAnswers struct {
	driverv1.UnimplementedMachineDriverServer

	success proto.Message
	failure *driverv1.MachineError
}

// answer returns the scripted error, or the scripted response if it is one of
// this method, or else an empty one.
func answer[R any](w *wireAnswers) (*R, error) {
	if w.failure != nil {
		carrier, err := grpcstatus.New(grpccodes.FailedPrecondition, "NotScheduledYet: wait").WithDetails(w.failure)
		if err != nil {
			return nil, err
		}

		return nil, carrier.Err()
	}

	if response, ok := any(w.success).(*R); ok {
		return response, nil
	}

	return new(R), nil
}

func (w *wireAnswers) CreateMachine(context.Context, *driverv1.CreateMachineRequest) (*driverv1.CreateMachineResponse, error) {
	return answer[driverv1.CreateMachineResponse](w)
}

func (w *wireAnswers) InitializeMachine(context.Context, *driverv1.InitializeMachineRequest) (*driverv1.InitializeMachineResponse, error) {
	return answer[driverv1.InitializeMachineResponse](w)
}

func (w *wireAnswers) DeleteMachine(context.Context, *driverv1.DeleteMachineRequest) (*driverv1.DeleteMachineResponse, error) {
	return answer[driverv1.DeleteMachineResponse](w)
}

func (w *wireAnswers) GetMachineStatus(context.Context, *driverv1.GetMachineStatusRequest) (*driverv1.GetMachineStatusResponse, error) {
	return answer[driverv1.GetMachineStatusResponse](w)
}

func (w *wireAnswers) ListMachines(context.Context, *driverv1.ListMachinesRequest) (*driverv1.ListMachinesResponse, error) {
	return answer[driverv1.ListMachinesResponse](w)
}

func (w *wireAnswers) GetVolumeIDs(context.Context, *driverv1.GetVolumeIDsRequest) (*driverv1.GetVolumeIDsResponse, error) {
	return answer[driverv1.GetVolumeIDsResponse](w)
}

// askWire returns a client's result for the response of another program.
func askWire(t *testing.T, method string, w *wireAnswers) outcome {
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

// TestInvalidAnswers has a driver send responses that machine-controller-manager would dereference,
// write to a Machine, or treat as a permanent failure.
func TestInvalidAnswers(t *testing.T) {
	t.Parallel()

	const unknown = 4294967295

	inError := &driverv1.MachineError_GetMachineStatus{GetMachineStatus: &driverv1.GetMachineStatusResponse{NodeName: "m"}}
	ofAnother := &driverv1.MachineError_CreateMachine{CreateMachine: &driverv1.CreateMachineResponse{ProviderId: "kubevirt://m", NodeName: "m"}}

	tests := map[string]struct {
		reason  string
		method  string
		success proto.Message
		failure *driverv1.MachineError
		names   string // the missing part that the error names; empty if the response is valid
	}{
		"StatusUninitialized": {
			reason: "machine-controller-manager dereferences the response", method: "GetMachineStatus",
			failure: &driverv1.MachineError{MachineCode: 17}, names: "machine code 17 (Uninitialized) without a response",
		},
		"StatusUninitializedOfAnother": {
			reason: "the response of another method is none", method: "GetMachineStatus",
			failure: &driverv1.MachineError{MachineCode: 17, Response: ofAnother}, names: "machine code 17 (Uninitialized) without a response",
		},
		"StatusUninitializedHalf": {
			reason: "it is written to the Machine", method: "GetMachineStatus",
			failure: &driverv1.MachineError{MachineCode: 17, Response: inError}, names: "machine code 17 (Uninitialized) without a provider ID",
		},
		"StatusEmpty": {
			reason: "both are written to the Machine", method: "GetMachineStatus", names: "a success without a provider ID and a node name",
		},
		"StatusOK": {
			reason: "an error cannot be OK", method: "GetMachineStatus", failure: &driverv1.MachineError{}, names: "machine code 0 (OK)",
		},
		"StatusUnknownCode": {
			reason: "it would be tried again after minutes", method: "GetMachineStatus",
			failure: &driverv1.MachineError{MachineCode: unknown}, names: "machine code 4294967295, which does not exist",
		},
		"CreateEmpty": {reason: "both are written to the Machine", method: "CreateMachine", names: "a success without a provider ID and a node name"},
		"CreateWithoutNode": {
			reason: "it becomes a label of the Machine", method: "CreateMachine",
			success: &driverv1.CreateMachineResponse{ProviderId: "kubevirt://m"}, names: "a success without a node name",
		},
		"CreateNextCode": {
			reason: "the first code that does not exist", method: "CreateMachine", failure: &driverv1.MachineError{MachineCode: 18}, names: "machine code 18",
		},
		"InitializeEmpty": {reason: "no machine was initialized", method: "InitializeMachine", names: "a success without a provider ID and a node name"},
		"InitializeOK":    {reason: "an error cannot be OK", method: "InitializeMachine", failure: &driverv1.MachineError{}, names: "machine code 0 (OK)"},
		"DeleteOK":        {reason: "whether it is gone is unknown", method: "DeleteMachine", failure: &driverv1.MachineError{}, names: "machine code 0 (OK)"},
		"DeleteUnknownCode": {
			reason: "whether it is gone is unknown", method: "DeleteMachine", failure: &driverv1.MachineError{MachineCode: unknown}, names: "machine code 4294967295",
		},
		"ListWithoutID": {
			reason: "machine-controller-manager deletes what it does not know", method: "ListMachines",
			success: &driverv1.ListMachinesResponse{MachineList: map[string]string{"": "m"}}, names: "a success without a provider ID of a listed machine",
		},
		"ListWithoutName": {
			reason: "machine-controller-manager deletes what it does not know", method: "ListMachines",
			success: &driverv1.ListMachinesResponse{MachineList: map[string]string{"kubevirt://m": ""}}, names: "a success without a node name of a listed machine",
		},
		"VolumesOK": {reason: "an error cannot be OK", method: "GetVolumeIDs", failure: &driverv1.MachineError{}, names: "machine code 0 (OK)"},

		"DeleteEmpty":  {reason: "the machine is gone, and that is all", method: "DeleteMachine"},
		"ListEmpty":    {reason: "there may be no machine", method: "ListMachines"},
		"VolumesEmpty": {reason: "none may be the driver's", method: "GetVolumeIDs"},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			got := askWire(t, tc.method, &wireAnswers{success: tc.success, failure: tc.failure})

			if tc.names == "" {
				require.NoError(t, got.err, tc.reason)

				return
			}

			require.True(t, reflect.ValueOf(got.answer).IsNil(), tc.reason)

			read, ok := status.FromError(got.err)
			require.True(t, ok, tc.reason)
			require.Equal(t, codes.Unavailable, read.Code(), tc.reason)
			require.Contains(t, read.Message(), driverrpc.TokenInvalid+": "+tc.method+" returned ")
			require.Contains(t, read.Message(), tc.names, tc.reason)
		})
	}
}

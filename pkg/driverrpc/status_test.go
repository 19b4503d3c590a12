// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package driverrpc_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/gardener/machine-controller-manager/pkg/util/provider/driver"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/machinecodes/codes"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/machinecodes/status"
	"github.com/stretchr/testify/require"
	grpccodes "google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
)

// outcome is the result of a call.
type outcome struct {
	resp any
	err  error
}

// call returns a function that calls a method with a request.
func call[Req, Resp any](method func(context.Context, *Req) (*Resp, error), req *Req) func(context.Context) outcome {
	return func(ctx context.Context) outcome {
		resp, err := method(ctx, req)

		return outcome{resp, err}
	}
}

// methods returns a function for each method of a driver that calls it.
func methods(d driver.Driver) map[string]func(context.Context) outcome {
	return map[string]func(context.Context) outcome{
		"CreateMachine":     call(d.CreateMachine, &driver.CreateMachineRequest{}),
		"InitializeMachine": call(d.InitializeMachine, &driver.InitializeMachineRequest{}),
		"DeleteMachine":     call(d.DeleteMachine, &driver.DeleteMachineRequest{}),
		"GetMachineStatus":  call(d.GetMachineStatus, &driver.GetMachineStatusRequest{}),
		"ListMachines":      call(d.ListMachines, &driver.ListMachinesRequest{}),
		"GetVolumeIDs":      call(d.GetVolumeIDs, &driver.GetVolumeIDsRequest{}),
	}
}

// respondWith returns a driver whose methods all return an error, and a response if respond is set.
func respondWith(err error, respond bool) *scripted {
	addresses := []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}, {Type: corev1.NodeHostName, Address: "ü"}}

	return &scripted{
		create: func(context.Context) (*driver.CreateMachineResponse, error) {
			return when(respond, &driver.CreateMachineResponse{ProviderID: "p", NodeName: "n", LastKnownState: "s", Addresses: addresses}), err
		},
		start: func(context.Context) (*driver.InitializeMachineResponse, error) {
			return when(respond, &driver.InitializeMachineResponse{ProviderID: "p", NodeName: "n", Addresses: addresses}), err
		},
		remove: func(context.Context) (*driver.DeleteMachineResponse, error) {
			return when(respond, &driver.DeleteMachineResponse{LastKnownState: "s"}), err
		},
		look: func(context.Context) (*driver.GetMachineStatusResponse, error) {
			return when(respond, &driver.GetMachineStatusResponse{ProviderID: "p", NodeName: "n", Addresses: addresses}), err
		},
		list: func(context.Context) (*driver.ListMachinesResponse, error) {
			return when(respond, &driver.ListMachinesResponse{MachineList: map[string]string{"p": "n", "q": "o"}}), err
		},
		volume: func(context.Context) (*driver.GetVolumeIDsResponse, error) {
			return when(respond, &driver.GetVolumeIDsResponse{VolumeIDs: []string{"a", "", "b"}}), err
		},
	}
}

func when[T any](ok bool, value *T) *T {
	if !ok {
		return nil
	}

	return value
}

// TestClient_Responses compares the results of a driver with those of its client: for each method and
// each machine code, with and without a response. Results that machine-controller-manager cannot
// handle are replaced (TestInvalidResponses).
func TestClient_Responses(t *testing.T) {
	t.Parallel()

	texts := []string{
		"ProviderUnavailable: create VirtualMachine ns/x: Post \"https://10.0.0.1:6443\": EOF", "ü, 漢字 and 🙂; 100% %20\\n", "",
		strings.Repeat("x", 1000),
	}
	errs := []error{nil}

	for code := codes.Canceled; code <= codes.Uninitialized; code++ {
		errs = append(errs, status.Error(code, texts[int(code)%len(texts)]))
	}

	for i, err := range errs {
		for _, respond := range []bool{true, false} {
			if err == nil && !respond {
				continue
			}

			local := respondWith(err, respond)
			remote := connect(t, local)

			for method, call := range methods(local) {
				if method == "GetMachineStatus" && !respond && i == int(codes.Uninitialized) {
					continue // machine-controller-manager reads its response.
				}

				want := call(t.Context())
				got := methods(remote)[method](t.Context())
				require.Equal(t, want, got, "%s, %d, %v", method, i, err)
			}
		}
	}
}

// TestToGRPC_WithoutMachineCode has drivers return errors that machine-controller-manager cannot
// parse.
func TestToGRPC_WithoutMachineCode(t *testing.T) {
	t.Parallel()

	for name, tc := range map[string]struct {
		err     error
		code    codes.Code
		message string
	}{
		"plain":    {errors.New("vm [x]"), codes.Unknown, "vm (x)"},
		"wrapped":  {fmt.Errorf("[more]: %w", status.Error(codes.Aborted, "busy")), codes.Aborted, "busy"},
		"brackets": {status.Error(codes.Aborted, "a ] b [ c"), codes.Aborted, "a ) b ( c"},
		"no UTF-8": {status.Error(codes.Aborted, "a\xffb"), codes.Aborted, "a�b"},
		"lines":    {status.Error(codes.Aborted, "a\nb"), codes.Aborted, "a b"},
		"gRPC's":   {grpcstatus.Error(grpccodes.ResourceExhausted, "of the driver's own client"), codes.Unknown, "rpc error: code = ResourceExhausted desc = of the driver's own client"},
	} {
		got := methods(connect(t, respondWith(tc.err, false)))["CreateMachine"](t.Context())
		require.Equal(t, status.Error(tc.code, tc.message), got.err, name)
	}
}

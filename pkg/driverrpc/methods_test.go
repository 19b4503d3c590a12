// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package driverrpc_test

import (
	"context"
	"testing"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/driver"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	grpccodes "google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	driverv1 "github.com/gardener/machine-controller-manager-provider-kubevirt/api/driver/v1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/driverrpc"
)

// TestClient_NilRequests calls every method with nil: the driver receives an empty request.
func TestClient_NilRequests(t *testing.T) {
	t.Parallel()

	d := respondWith(nil, true)
	c := connect(t, d)

	for method, tc := range map[string]struct {
		call func(context.Context) outcome
		want any
	}{
		"CreateMachine":     {call(c.CreateMachine, nil), &driver.CreateMachineRequest{}},
		"InitializeMachine": {call(c.InitializeMachine, nil), &driver.InitializeMachineRequest{}},
		"DeleteMachine":     {call(c.DeleteMachine, nil), &driver.DeleteMachineRequest{}},
		"GetMachineStatus":  {call(c.GetMachineStatus, nil), &driver.GetMachineStatusRequest{}},
		"ListMachines":      {call(c.ListMachines, nil), &driver.ListMachinesRequest{}},
		"GetVolumeIDs":      {call(c.GetVolumeIDs, nil), &driver.GetVolumeIDsRequest{PVSpecs: []*corev1.PersistentVolumeSpec{}}},
	} {
		require.NoError(t, tc.call(t.Context()).err, method)
		require.Equal(t, tc.want, *d.last.Load(), method)
	}
}

// TestClient_NilResponses has every method of a driver return neither a response nor an error. The client
// returns a response or an error, since machine-controller-manager dereferences the response.
func TestClient_NilResponses(t *testing.T) {
	t.Parallel()

	const incomplete = " returned success without a provider ID or a node name"

	calls := methods(connect(t, respondWith(nil, false)))

	for method, want := range map[string]struct {
		resp any
		err  string
	}{
		"CreateMachine":     {err: "CreateMachine" + incomplete},
		"InitializeMachine": {err: "InitializeMachine" + incomplete},
		"DeleteMachine":     {resp: &driver.DeleteMachineResponse{}},
		"GetMachineStatus":  {err: "GetMachineStatus" + incomplete},
		"ListMachines":      {resp: &driver.ListMachinesResponse{MachineList: map[string]string{}}},
		"GetVolumeIDs":      {resp: &driver.GetVolumeIDsResponse{VolumeIDs: []string{}}},
	} {
		got := calls[method](t.Context())

		if want.err != "" {
			require.ErrorContains(t, got.err, driverrpc.TokenInvalid+": "+want.err)
			require.Nil(t, got.resp, method)

			continue
		}

		require.NoError(t, got.err, method)
		require.Equal(t, want.resp, got.resp, method)
	}
}

// TestServer_MalformedRequests sends requests whose JSON cannot be decoded. The error has no
// MachineError, since the driver has not seen the request, and it contains no part of the request.
func TestServer_MalformedRequests(t *testing.T) {
	t.Parallel()

	d := respondWith(nil, true)
	socket := socketOf(t)
	serve(t, d, socket, optionsOf(prometheus.NewRegistry()))

	connection, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, connection.Close()) })

	machine := &driverv1.Machine{Json: []byte("secret")}
	class := &driverv1.MachineClass{Json: []byte("secret")}
	volume := &driverv1.PersistentVolumeSpec{Json: []byte("secret")}

	for method, requests := range map[string][]proto.Message{
		driverv1.MachineDriver_CreateMachine_FullMethodName: {
			&driverv1.CreateMachineRequest{Machine: machine}, &driverv1.CreateMachineRequest{MachineClass: class},
		},
		driverv1.MachineDriver_InitializeMachine_FullMethodName: {
			&driverv1.InitializeMachineRequest{Machine: machine}, &driverv1.InitializeMachineRequest{MachineClass: class},
		},
		driverv1.MachineDriver_DeleteMachine_FullMethodName: {
			&driverv1.DeleteMachineRequest{Machine: machine}, &driverv1.DeleteMachineRequest{MachineClass: class},
		},
		driverv1.MachineDriver_GetMachineStatus_FullMethodName: {
			&driverv1.GetMachineStatusRequest{Machine: machine}, &driverv1.GetMachineStatusRequest{MachineClass: class},
		},
		driverv1.MachineDriver_ListMachines_FullMethodName: {&driverv1.ListMachinesRequest{MachineClass: class}},
		driverv1.MachineDriver_GetVolumeIDs_FullMethodName: {&driverv1.GetVolumeIDsRequest{PvSpecs: []*driverv1.PersistentVolumeSpec{{}, volume}}},
	} {
		for _, request := range requests {
			err := connection.Invoke(t.Context(), method, request, &driverv1.GetInfoResponse{})
			require.Equal(t, grpccodes.InvalidArgument, grpcstatus.Code(err), method)
			require.Empty(t, grpcstatus.Convert(err).Details(), method)
			require.NotContains(t, err.Error(), "secret", method)
			require.Nil(t, d.last.Load(), method)
		}
	}
}

// TestClient_UnencodableRequests calls every method that has a class with a providerSpec that is not
// JSON.
func TestClient_UnencodableRequests(t *testing.T) {
	t.Parallel()

	d := respondWith(nil, true)
	c := connect(t, d)
	class := &v1alpha1.MachineClass{ProviderSpec: runtime.RawExtension{Raw: []byte("{")}}

	for method, call := range map[string]func(context.Context) outcome{
		"CreateMachine":     call(c.CreateMachine, &driver.CreateMachineRequest{MachineClass: class}),
		"InitializeMachine": call(c.InitializeMachine, &driver.InitializeMachineRequest{MachineClass: class}),
		"DeleteMachine":     call(c.DeleteMachine, &driver.DeleteMachineRequest{MachineClass: class}),
		"GetMachineStatus":  call(c.GetMachineStatus, &driver.GetMachineStatusRequest{MachineClass: class}),
		"ListMachines":      call(c.ListMachines, &driver.ListMachinesRequest{MachineClass: class}),
	} {
		got := call(t.Context())
		require.ErrorContains(t, got.err, "encode *v1alpha1.MachineClass", method)
		require.Nil(t, d.last.Load(), method)
		requireUnavailable(t, method, got)
	}
}

// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package driverrpc

import (
	"context"
	"fmt"

	"github.com/gardener/machine-controller-manager/pkg/util/provider/machinecodes/codes"
	"google.golang.org/grpc"
	grpccodes "google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	driverv1 "github.com/gardener/machine-controller-manager-provider-kubevirt/api/driver/v1"
)

// method is one method of a driver. It converts requests and responses between
// machine-controller-manager's types and the wire format. The client and the server share it.
type method[Req, Resp, WireReq, WireResp any] struct {
	// name is the full name of the gRPC method.
	name string

	encodeRequest  func(*codec, *Req) *WireReq
	decodeRequest  func(*codec, *WireReq) *Req
	encodeResponse func(*Resp) *WireResp
	decodeResponse func(*WireResp) *Resp

	// attach adds a response to the error that accompanies it, and attached returns it.
	attach   func(*driverv1.MachineError, *WireResp)
	attached func(*driverv1.MachineError) *WireResp

	// missing returns the required fields that a response lacks. It is nil if no field is required.
	missing func(*Resp) string
	// responseCode is the machine code of the error that requires a response; OK if there is none.
	responseCode codes.Code
}

// call sends a request to a driver. The response and the error are the driver's own, unless the
// driver could not be reached, or machine-controller-manager cannot handle the response.
func (m *method[Req, Resp, WireReq, WireResp]) call(
	ctx context.Context, req *Req, invoke func(context.Context, *WireReq, ...grpc.CallOption) (*WireResp, error),
) (*Resp, error) {
	if req == nil {
		req = new(Req)
	}

	encoder := &codec{}
	wireReq := m.encodeRequest(encoder, req)
	if encoder.err != nil {
		return nil, unavailable(m.name, encoder.err)
	}

	wireResp, err := invoke(ctx, wireReq)

	machineError, err := fromGRPC(m.name, err)
	if machineError != nil {
		wireResp = m.attached(machineError)
	}

	resp := convert(wireResp, m.decodeResponse)
	if invalid := m.requireComplete(resp, readMachineStatus(err).Code()); invalid != nil {
		return nil, invalid
	}

	return resp, err
}

// serve calls a driver with a request from the wire. gRPC sends no response with an error, so a
// response that accompanies an error is attached to the error.
func (m *method[Req, Resp, WireReq, WireResp]) serve(
	ctx context.Context, wireReq *WireReq, call func(context.Context, *Req) (*Resp, error),
) (*WireResp, error) {
	decoder := &codec{}
	req := m.decodeRequest(decoder, wireReq)
	if decoder.err != nil { // A bug in the client. The error does not come from the driver, so it has no MachineError.
		return nil, grpcstatus.Error(grpccodes.InvalidArgument, decoder.err.Error())
	}

	resp, err := call(ctx, req)
	wireResp := convert(resp, m.encodeResponse)

	if err != nil {
		machineError := &driverv1.MachineError{}
		if wireResp != nil {
			m.attach(machineError, wireResp)
		}

		return nil, toGRPC(err, machineError)
	}

	if wireResp == nil { // DeleteMachine may return no response. The client checks those of other methods.
		wireResp = new(WireResp)
	}

	return wireResp, nil
}

// requireComplete returns an error if a response lacks what machine-controller-manager reads.
func (m *method[Req, Resp, WireReq, WireResp]) requireComplete(resp *Resp, code codes.Code) error {
	if m.missing == nil || code != codes.OK && code != m.responseCode {
		return nil
	}

	missing := "a response"
	if resp != nil {
		missing = m.missing(resp)
	}

	switch {
	case missing == "":
		return nil
	case code == codes.OK:
		return invalidResponse(m.name, "success without "+missing)
	default:
		return invalidResponse(m.name, fmt.Sprintf("machine code %d (%s) without %s", code, code, missing))
	}
}

// convert converts nil to nil, and every other value with a function.
func convert[From, To any](from *From, to func(*From) *To) *To {
	if from == nil {
		return nil
	}

	return to(from)
}

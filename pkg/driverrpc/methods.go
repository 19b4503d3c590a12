package driverrpc

import (
	"context"

	"github.com/gardener/machine-controller-manager/pkg/util/provider/driver"
	grpccodes "google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	driverv1 "github.com/gardener/machine-controller-manager-provider-kubevirt/api/driver/v1"
)

// methods implements the gRPC service for a driver. Each method decodes the request, calls the
// driver and encodes its response.
type methods struct {
	driverv1.UnimplementedMachineDriverServer

	driver driver.Driver
	info   Info
}

// reply returns a driver's response. gRPC sends no response with an error, so
// attach puts it into the error.
func reply[O any](out *O, err error, attach func(*driverv1.MachineError)) (*O, error) {
	if err == nil {
		return out, nil
	}

	failure := &driverv1.MachineError{}
	if out != nil {
		attach(failure)
	}

	return nil, statusOf(err, failure)
}

// malformed returns the error for a request whose JSON cannot be decoded. It is a bug in the
// client, and no driver has judged the machine.
func malformed(err error) error {
	return grpcstatus.Error(grpccodes.InvalidArgument, err.Error())
}

// CreateMachine implements driverv1.MachineDriverServer.
func (m *methods) CreateMachine(ctx context.Context, in *driverv1.CreateMachineRequest) (*driverv1.CreateMachineResponse, error) {
	about, err := decodeSubject(wireSubject{in.GetMachine(), in.GetMachineClass(), in.GetSecret()})
	if err != nil {
		return nil, malformed(err)
	}

	answer, err := m.driver.CreateMachine(ctx, &driver.CreateMachineRequest{
		Machine: about.machine, MachineClass: about.class, Secret: about.secret,
	})
	out := encodeCreated(answer)

	return reply(out, err, func(f *driverv1.MachineError) {
		f.Response = &driverv1.MachineError_CreateMachine{CreateMachine: out}
	})
}

// InitializeMachine implements driverv1.MachineDriverServer.
func (m *methods) InitializeMachine(
	ctx context.Context, in *driverv1.InitializeMachineRequest,
) (*driverv1.InitializeMachineResponse, error) {
	about, err := decodeSubject(wireSubject{in.GetMachine(), in.GetMachineClass(), in.GetSecret()})
	if err != nil {
		return nil, malformed(err)
	}

	answer, err := m.driver.InitializeMachine(ctx, &driver.InitializeMachineRequest{
		Machine: about.machine, MachineClass: about.class, Secret: about.secret,
	})
	out := encodeInitialized(answer)

	return reply(out, err, func(f *driverv1.MachineError) {
		f.Response = &driverv1.MachineError_InitializeMachine{InitializeMachine: out}
	})
}

// DeleteMachine implements driverv1.MachineDriverServer.
func (m *methods) DeleteMachine(ctx context.Context, in *driverv1.DeleteMachineRequest) (*driverv1.DeleteMachineResponse, error) {
	about, err := decodeSubject(wireSubject{in.GetMachine(), in.GetMachineClass(), in.GetSecret()})
	if err != nil {
		return nil, malformed(err)
	}

	answer, err := m.driver.DeleteMachine(ctx, &driver.DeleteMachineRequest{
		Machine: about.machine, MachineClass: about.class, Secret: about.secret,
	})
	if err == nil && answer == nil { // The only method that may return no response.
		answer = &driver.DeleteMachineResponse{}
	}

	out := encodeDeleted(answer)

	return reply(out, err, func(f *driverv1.MachineError) {
		f.Response = &driverv1.MachineError_DeleteMachine{DeleteMachine: out}
	})
}

// GetMachineStatus implements driverv1.MachineDriverServer.
func (m *methods) GetMachineStatus(
	ctx context.Context, in *driverv1.GetMachineStatusRequest,
) (*driverv1.GetMachineStatusResponse, error) {
	about, err := decodeSubject(wireSubject{in.GetMachine(), in.GetMachineClass(), in.GetSecret()})
	if err != nil {
		return nil, malformed(err)
	}

	answer, err := m.driver.GetMachineStatus(ctx, &driver.GetMachineStatusRequest{
		Machine: about.machine, MachineClass: about.class, Secret: about.secret,
	})
	out := encodeStatus(answer)

	return reply(out, err, func(f *driverv1.MachineError) {
		f.Response = &driverv1.MachineError_GetMachineStatus{GetMachineStatus: out}
	})
}

// ListMachines implements driverv1.MachineDriverServer.
func (m *methods) ListMachines(ctx context.Context, in *driverv1.ListMachinesRequest) (*driverv1.ListMachinesResponse, error) {
	about, err := decodeSubject(wireSubject{class: in.GetMachineClass(), secret: in.GetSecret()})
	if err != nil {
		return nil, malformed(err)
	}

	answer, err := m.driver.ListMachines(ctx, &driver.ListMachinesRequest{MachineClass: about.class, Secret: about.secret})
	out := encodeList(answer)

	return reply(out, err, func(f *driverv1.MachineError) {
		f.Response = &driverv1.MachineError_ListMachines{ListMachines: out}
	})
}

// GetVolumeIDs implements driverv1.MachineDriverServer.
func (m *methods) GetVolumeIDs(ctx context.Context, in *driverv1.GetVolumeIDsRequest) (*driverv1.GetVolumeIDsResponse, error) {
	specs, err := decodeVolumes(in.GetPvSpecs())
	if err != nil {
		return nil, malformed(err)
	}

	answer, err := m.driver.GetVolumeIDs(ctx, &driver.GetVolumeIDsRequest{PVSpecs: specs})
	out := encodeVolumeIDs(answer)

	return reply(out, err, func(f *driverv1.MachineError) {
		f.Response = &driverv1.MachineError_GetVolumeIds{GetVolumeIds: out}
	})
}

// GetInfo implements driverv1.MachineDriverServer.
func (m *methods) GetInfo(context.Context, *driverv1.GetInfoRequest) (*driverv1.GetInfoResponse, error) {
	return &driverv1.GetInfoResponse{Name: m.info.Name, Version: m.info.Version}, nil
}

package driverrpc

import (
	"context"

	"github.com/gardener/machine-controller-manager/pkg/util/provider/driver"

	driverv1 "github.com/gardener/machine-controller-manager-provider-kubevirt/api/driver/v1"
)

// service implements driverv1.MachineDriverServer for a driver.
type service struct {
	driverv1.UnimplementedMachineDriverServer

	driver driver.Driver
	info   Info
}

func (s *service) CreateMachine(ctx context.Context, req *driverv1.CreateMachineRequest) (*driverv1.CreateMachineResponse, error) {
	return createMachine.serve(ctx, req, s.driver.CreateMachine)
}

func (s *service) InitializeMachine(
	ctx context.Context, req *driverv1.InitializeMachineRequest,
) (*driverv1.InitializeMachineResponse, error) {
	return initializeMachine.serve(ctx, req, s.driver.InitializeMachine)
}

func (s *service) DeleteMachine(ctx context.Context, req *driverv1.DeleteMachineRequest) (*driverv1.DeleteMachineResponse, error) {
	return deleteMachine.serve(ctx, req, s.driver.DeleteMachine)
}

func (s *service) GetMachineStatus(
	ctx context.Context, req *driverv1.GetMachineStatusRequest,
) (*driverv1.GetMachineStatusResponse, error) {
	return getMachineStatus.serve(ctx, req, s.driver.GetMachineStatus)
}

func (s *service) ListMachines(ctx context.Context, req *driverv1.ListMachinesRequest) (*driverv1.ListMachinesResponse, error) {
	return listMachines.serve(ctx, req, s.driver.ListMachines)
}

func (s *service) GetVolumeIDs(ctx context.Context, req *driverv1.GetVolumeIDsRequest) (*driverv1.GetVolumeIDsResponse, error) {
	return getVolumeIDs.serve(ctx, req, s.driver.GetVolumeIDs)
}

func (s *service) GetInfo(context.Context, *driverv1.GetInfoRequest) (*driverv1.GetInfoResponse, error) {
	return &driverv1.GetInfoResponse{Name: s.info.Name, Version: s.info.Version}, nil
}

package driverrpc

import (
	"context"
	"fmt"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/util/provider/driver"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"

	driverv1 "github.com/gardener/machine-controller-manager-provider-kubevirt/api/driver/v1"
)

// reconnect is the backoff between connection attempts: a driver that restarts
// is back within a second or two.
var reconnect = grpc.ConnectParams{
	Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second},
	MinConnectTimeout: 5 * time.Second,
}

// Client is a driver that runs in another process. It is safe for concurrent use. A process creates
// only one: to the driver, each client is another process.
type Client struct {
	connection *grpc.ClientConn
	remote     driverv1.MachineDriverClient
}

var _ driver.Driver = (*Client)(nil)

// NewClient returns a client for an endpoint in gRPC's syntax: unix:///path or dns:///host:port. It
// connects on the first call.
func NewClient(endpoint string, creds credentials.TransportCredentials) (*Client, error) {
	connection, err := grpc.NewClient(endpoint,
		grpc.WithTransportCredentials(creds),
		grpc.WithConnectParams(reconnect),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: pingEvery, Timeout: pingTimeout, PermitWithoutStream: true}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxResponse), grpc.MaxCallSendMsgSize(maxRequest)),
		grpc.WithDisableServiceConfig(), // DNS must not configure calls.
		grpc.WithChainUnaryInterceptor(withDeadline, identify(), repeatLost),
	)
	if err != nil {
		return nil, fmt.Errorf("endpoint of the driver: %w", err)
	}

	return &Client{connection: connection, remote: driverv1.NewMachineDriverClient(connection)}, nil
}

// Close closes the connection and cancels the calls in progress.
func (c *Client) Close() error {
	return c.connection.Close()
}

// Info returns the driver's name and version.
func (c *Client) Info(ctx context.Context) (Info, error) {
	answer, err := c.remote.GetInfo(ctx, &driverv1.GetInfoRequest{})
	if err != nil {
		return Info{}, unavailable(driverv1.MachineDriver_GetInfo_FullMethodName, err)
	}

	return Info{Name: answer.GetName(), Version: answer.GetVersion()}, nil
}

// CreateMachine implements driver.Driver.
func (c *Client) CreateMachine(ctx context.Context, req *driver.CreateMachineRequest) (*driver.CreateMachineResponse, error) {
	const method = driverv1.MachineDriver_CreateMachine_FullMethodName

	if req == nil {
		req = &driver.CreateMachineRequest{}
	}

	wire, err := encodeSubject(subject{req.Machine, req.MachineClass, req.Secret})
	if err != nil {
		return nil, unavailable(method, err)
	}

	out, err := c.remote.CreateMachine(ctx, &driverv1.CreateMachineRequest{Machine: wire.machine, MachineClass: wire.class, Secret: wire.secret})

	failure, err := machineStatusOf(method, err)
	if err != nil {
		out = failure.GetCreateMachine()
	}

	return whole(method, decodeCreated(out), err, missingInCreated)
}

// InitializeMachine implements driver.Driver.
func (c *Client) InitializeMachine(ctx context.Context, req *driver.InitializeMachineRequest) (*driver.InitializeMachineResponse, error) {
	const method = driverv1.MachineDriver_InitializeMachine_FullMethodName

	if req == nil {
		req = &driver.InitializeMachineRequest{}
	}

	wire, err := encodeSubject(subject{req.Machine, req.MachineClass, req.Secret})
	if err != nil {
		return nil, unavailable(method, err)
	}

	out, err := c.remote.InitializeMachine(ctx, &driverv1.InitializeMachineRequest{
		Machine: wire.machine, MachineClass: wire.class, Secret: wire.secret,
	})

	failure, err := machineStatusOf(method, err)
	if err != nil {
		out = failure.GetInitializeMachine()
	}

	return whole(method, decodeInitialized(out), err, missingInInitialized)
}

// DeleteMachine implements driver.Driver.
func (c *Client) DeleteMachine(ctx context.Context, req *driver.DeleteMachineRequest) (*driver.DeleteMachineResponse, error) {
	const method = driverv1.MachineDriver_DeleteMachine_FullMethodName

	if req == nil {
		req = &driver.DeleteMachineRequest{}
	}

	wire, err := encodeSubject(subject{req.Machine, req.MachineClass, req.Secret})
	if err != nil {
		return nil, unavailable(method, err)
	}

	out, err := c.remote.DeleteMachine(ctx, &driverv1.DeleteMachineRequest{Machine: wire.machine, MachineClass: wire.class, Secret: wire.secret})

	failure, err := machineStatusOf(method, err)
	if err != nil {
		out = failure.GetDeleteMachine()
	}

	return whole(method, decodeDeleted(out), err, missingInDeleted)
}

// GetMachineStatus implements driver.Driver.
func (c *Client) GetMachineStatus(ctx context.Context, req *driver.GetMachineStatusRequest) (*driver.GetMachineStatusResponse, error) {
	const method = driverv1.MachineDriver_GetMachineStatus_FullMethodName

	if req == nil {
		req = &driver.GetMachineStatusRequest{}
	}

	wire, err := encodeSubject(subject{req.Machine, req.MachineClass, req.Secret})
	if err != nil {
		return nil, unavailable(method, err)
	}

	out, err := c.remote.GetMachineStatus(ctx, &driverv1.GetMachineStatusRequest{
		Machine: wire.machine, MachineClass: wire.class, Secret: wire.secret,
	})

	failure, err := machineStatusOf(method, err)
	if err != nil {
		out = failure.GetGetMachineStatus()
	}

	return whole(method, decodeStatus(out), err, missingInStatus)
}

// ListMachines implements driver.Driver.
func (c *Client) ListMachines(ctx context.Context, req *driver.ListMachinesRequest) (*driver.ListMachinesResponse, error) {
	const method = driverv1.MachineDriver_ListMachines_FullMethodName

	if req == nil {
		req = &driver.ListMachinesRequest{}
	}

	wire, err := encodeSubject(subject{class: req.MachineClass, secret: req.Secret})
	if err != nil {
		return nil, unavailable(method, err)
	}

	out, err := c.remote.ListMachines(ctx, &driverv1.ListMachinesRequest{MachineClass: wire.class, Secret: wire.secret})

	failure, err := machineStatusOf(method, err)
	if err != nil {
		out = failure.GetListMachines()
	}

	return whole(method, decodeList(out), err, missingInList)
}

// GetVolumeIDs implements driver.Driver.
func (c *Client) GetVolumeIDs(ctx context.Context, req *driver.GetVolumeIDsRequest) (*driver.GetVolumeIDsResponse, error) {
	const method = driverv1.MachineDriver_GetVolumeIDs_FullMethodName

	if req == nil {
		req = &driver.GetVolumeIDsRequest{}
	}

	specs, err := encodeVolumes(req.PVSpecs)
	if err != nil {
		return nil, unavailable(method, err)
	}

	out, err := c.remote.GetVolumeIDs(ctx, &driverv1.GetVolumeIDsRequest{PvSpecs: specs})

	failure, err := machineStatusOf(method, err)
	if err != nil {
		out = failure.GetGetVolumeIds()
	}

	return whole(method, decodeVolumeIDs(out), err, missingInVolumeIDs)
}

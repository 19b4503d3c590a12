// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

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

// connectParams has short delays between connection attempts: a driver restarts within a second or
// two.
var connectParams = grpc.ConnectParams{
	Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second},
	MinConnectTimeout: 5 * time.Second,
}

// Client is a driver that runs in another process. It is safe for concurrent use. A process must
// create only one: the driver treats each client as a separate process.
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
		grpc.WithConnectParams(connectParams),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: pingInterval, Timeout: pingTimeout, PermitWithoutStream: true}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxResponse), grpc.MaxCallSendMsgSize(maxRequest)),
		grpc.WithDisableServiceConfig(), // DNS records must not configure calls.
		grpc.WithChainUnaryInterceptor(withTimeout, sendProcessID(), retryLost),
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
	resp, err := c.remote.GetInfo(ctx, &driverv1.GetInfoRequest{})
	if err != nil {
		return Info{}, unavailable(driverv1.MachineDriver_GetInfo_FullMethodName, err)
	}

	return Info{Name: resp.GetName(), Version: resp.GetVersion()}, nil
}

// CreateMachine implements driver.Driver.
func (c *Client) CreateMachine(ctx context.Context, req *driver.CreateMachineRequest) (*driver.CreateMachineResponse, error) {
	return createMachine.call(ctx, req, c.remote.CreateMachine)
}

// InitializeMachine implements driver.Driver.
func (c *Client) InitializeMachine(ctx context.Context, req *driver.InitializeMachineRequest) (*driver.InitializeMachineResponse, error) {
	return initializeMachine.call(ctx, req, c.remote.InitializeMachine)
}

// DeleteMachine implements driver.Driver.
func (c *Client) DeleteMachine(ctx context.Context, req *driver.DeleteMachineRequest) (*driver.DeleteMachineResponse, error) {
	return deleteMachine.call(ctx, req, c.remote.DeleteMachine)
}

// GetMachineStatus implements driver.Driver.
func (c *Client) GetMachineStatus(ctx context.Context, req *driver.GetMachineStatusRequest) (*driver.GetMachineStatusResponse, error) {
	return getMachineStatus.call(ctx, req, c.remote.GetMachineStatus)
}

// ListMachines implements driver.Driver.
func (c *Client) ListMachines(ctx context.Context, req *driver.ListMachinesRequest) (*driver.ListMachinesResponse, error) {
	return listMachines.call(ctx, req, c.remote.ListMachines)
}

// GetVolumeIDs implements driver.Driver.
func (c *Client) GetVolumeIDs(ctx context.Context, req *driver.GetVolumeIDsRequest) (*driver.GetVolumeIDsResponse, error) {
	return getVolumeIDs.call(ctx, req, c.remote.GetVolumeIDs)
}

// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package driverrpc_test

import (
	"context"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/driver"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/driverrpc"
)

// scripted is a driver that responds as a test specifies, and records the last request.
type scripted struct {
	driver.Driver

	last   atomic.Pointer[any]
	create func(context.Context) (*driver.CreateMachineResponse, error)
	start  func(context.Context) (*driver.InitializeMachineResponse, error)
	remove func(context.Context) (*driver.DeleteMachineResponse, error)
	look   func(context.Context) (*driver.GetMachineStatusResponse, error)
	list   func(context.Context) (*driver.ListMachinesResponse, error)
	volume func(context.Context) (*driver.GetVolumeIDsResponse, error)
}

func (s *scripted) record(req any) { s.last.Store(&req) }

func (s *scripted) CreateMachine(ctx context.Context, req *driver.CreateMachineRequest) (*driver.CreateMachineResponse, error) {
	s.record(req)

	return s.create(ctx)
}

func (s *scripted) InitializeMachine(ctx context.Context, req *driver.InitializeMachineRequest) (*driver.InitializeMachineResponse, error) {
	s.record(req)

	return s.start(ctx)
}

func (s *scripted) DeleteMachine(ctx context.Context, req *driver.DeleteMachineRequest) (*driver.DeleteMachineResponse, error) {
	s.record(req)

	return s.remove(ctx)
}

func (s *scripted) GetMachineStatus(ctx context.Context, req *driver.GetMachineStatusRequest) (*driver.GetMachineStatusResponse, error) {
	s.record(req)

	return s.look(ctx)
}

func (s *scripted) ListMachines(ctx context.Context, req *driver.ListMachinesRequest) (*driver.ListMachinesResponse, error) {
	s.record(req)

	return s.list(ctx)
}

func (s *scripted) GetVolumeIDs(ctx context.Context, req *driver.GetVolumeIDsRequest) (*driver.GetVolumeIDsResponse, error) {
	s.record(req)

	return s.volume(ctx)
}

// socketOf returns a path for a test's socket.
func socketOf(t *testing.T) string {
	t.Helper()

	return filepath.Join(t.TempDir(), "driver.sock")
}

func optionsOf(registry prometheus.Registerer) driverrpc.ServerOptions {
	return driverrpc.ServerOptions{
		Info:        driverrpc.Info{Name: "kubevirt", Version: "v1.2.3"},
		Credentials: insecure.NewCredentials(),
		MaxCalls:    10,
		Metrics:     registry,
	}
}

// serve serves a driver on a socket, until the test ends or the returned function is called.
func serve(t *testing.T, d driver.Driver, socket string, options driverrpc.ServerOptions) (stop func(context.Context)) {
	t.Helper()

	endpoint, err := driverrpc.ParseEndpoint("unix://" + socket)
	require.NoError(t, err)

	listener, err := endpoint.Listen(t.Context())
	require.NoError(t, err)

	server, err := driverrpc.NewServer(d, options)
	require.NoError(t, err)

	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()

	stop = func(ctx context.Context) {
		server.Stop(ctx)
		require.NoError(t, <-served)

		served <- nil
	}
	t.Cleanup(func() {
		now, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
		cancel()
		stop(now)
	})

	return stop
}

func dial(t *testing.T, socket string) *driverrpc.Client {
	t.Helper()

	client, err := driverrpc.NewClient("unix://"+socket, insecure.NewCredentials())
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() }) // The test may have closed it.

	return client
}

// connect serves the driver and returns a client.
func connect(t *testing.T, d driver.Driver) *driverrpc.Client {
	t.Helper()

	socket := socketOf(t)
	serve(t, d, socket, optionsOf(prometheus.NewRegistry()))

	return dial(t, socket)
}

// TestClient_Requests compares requests as sent and as received, with objects as an API server
// returns them, and as the safety controller constructs them.
func TestClient_Requests(t *testing.T) {
	t.Parallel()

	machine := &v1alpha1.Machine{
		ObjectMeta: metav1.ObjectMeta{
			Name:              "m",
			Namespace:         "shoot",
			UID:               "u",
			Labels:            map[string]string{"name": "md"},
			CreationTimestamp: metav1.NewTime(time.Unix(1700000000, 0).Local()),
			DeletionTimestamp: &metav1.Time{Time: time.Unix(1700000001, 0).Local()},
		},
		Spec: v1alpha1.MachineSpec{
			ProviderID: "kubevirt://m",
			NodeTemplateSpec: v1alpha1.NodeTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"worker.gardener.cloud/pool": "p"}},
			},
			MachineConfiguration: &v1alpha1.MachineConfiguration{MachineCreationTimeout: &metav1.Duration{Duration: time.Minute}},
		},
		Status: v1alpha1.MachineStatus{LastKnownState: "ü\x00{}"},
	}
	class := &v1alpha1.MachineClass{
		ObjectMeta:   metav1.ObjectMeta{Name: "class"},
		Provider:     "kubevirt",
		ProviderSpec: runtime.RawExtension{Raw: []byte(`{"a":"<&>\u2028ü","n":12345678901234567890.10,"twice":1,"twice":2}`)},
	}
	secret := &corev1.Secret{Data: map[string][]byte{"userData": {0, 255, 254}, "kubeconfig": []byte("k"), "empty": {}}}
	orphan := &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Name: "m", Namespace: "shoot"}, Spec: v1alpha1.MachineSpec{ProviderID: "kubevirt://m"}}
	bare := &v1alpha1.MachineClass{ObjectMeta: metav1.ObjectMeta{Name: "class"}}
	d := &scripted{
		create: func(context.Context) (*driver.CreateMachineResponse, error) {
			return &driver.CreateMachineResponse{ProviderID: "p", NodeName: "n"}, nil
		},
		start: func(context.Context) (*driver.InitializeMachineResponse, error) {
			return &driver.InitializeMachineResponse{ProviderID: "p", NodeName: "n"}, nil
		},
		remove: func(context.Context) (*driver.DeleteMachineResponse, error) {
			return nil, nil //nolint:nilnil // machine-controller-manager allows this for this method only.
		},
		look: func(context.Context) (*driver.GetMachineStatusResponse, error) {
			return &driver.GetMachineStatusResponse{ProviderID: "p", NodeName: "n"}, nil
		},
		list: func(context.Context) (*driver.ListMachinesResponse, error) {
			return &driver.ListMachinesResponse{}, nil
		},
		volume: func(context.Context) (*driver.GetVolumeIDsResponse, error) {
			return &driver.GetVolumeIDsResponse{}, nil
		},
	}
	c := connect(t, d)

	for name, objects := range map[string]struct {
		machine *v1alpha1.Machine
		class   *v1alpha1.MachineClass
		secret  *corev1.Secret
	}{
		"all":     {machine, class, secret},
		"orphan":  {orphan, class, secret},
		"bare":    {machine, bare, &corev1.Secret{}},
		"nothing": {},
		"large":   {machine, class, &corev1.Secret{Data: map[string][]byte{"userData": make([]byte, 2<<20)}}},
	} {
		create := &driver.CreateMachineRequest{Machine: objects.machine, MachineClass: objects.class, Secret: objects.secret}
		_, err := c.CreateMachine(t.Context(), create)
		require.NoError(t, err, name)
		require.Equal(t, create, *d.last.Load(), name)

		start := &driver.InitializeMachineRequest{Machine: objects.machine, MachineClass: objects.class, Secret: objects.secret}
		_, err = c.InitializeMachine(t.Context(), start)
		require.NoError(t, err, name)
		require.Equal(t, start, *d.last.Load(), name)

		remove := &driver.DeleteMachineRequest{Machine: objects.machine, MachineClass: objects.class, Secret: objects.secret}
		resp, err := c.DeleteMachine(t.Context(), remove)
		require.NoError(t, err, name)
		require.NotNil(t, resp, name)
		require.Equal(t, remove, *d.last.Load(), name)

		look := &driver.GetMachineStatusRequest{Machine: objects.machine, MachineClass: objects.class, Secret: objects.secret}
		_, err = c.GetMachineStatus(t.Context(), look)
		require.NoError(t, err, name)
		require.Equal(t, look, *d.last.Load(), name)

		list := &driver.ListMachinesRequest{MachineClass: objects.class, Secret: objects.secret}
		_, err = c.ListMachines(t.Context(), list)
		require.NoError(t, err, name)
		require.Equal(t, list, *d.last.Load(), name)
	}

	volumes := &driver.GetVolumeIDsRequest{PVSpecs: []*corev1.PersistentVolumeSpec{
		nil,
		{},
		{PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "d", VolumeHandle: "<v>"}}},
	}}
	_, err := c.GetVolumeIDs(t.Context(), volumes)
	require.NoError(t, err)
	require.Equal(t, volumes, *d.last.Load())
}

func TestInfo(t *testing.T) {
	t.Parallel()

	info, err := connect(t, &scripted{}).Info(t.Context())
	require.NoError(t, err)
	require.Equal(t, driverrpc.Info{Name: "kubevirt", Version: "v1.2.3"}, info)
}

// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Command machine-controller runs machine-controller-manager's machine controller with the KubeVirt
// driver. Gardener injects it as a sidecar next to machine-controller-manager. It only connects
// them: flags to options, options to the plugin or to a driver over gRPC, and either driver to
// machine-controller-manager.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	_ "github.com/gardener/machine-controller-manager/pkg/util/client/metrics/prometheus" // rest_client_*, as in every driver
	"github.com/gardener/machine-controller-manager/pkg/util/provider/app"
	mcmoptions "github.com/gardener/machine-controller-manager/pkg/util/provider/app/options"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/driver"
	_ "github.com/gardener/machine-controller-manager/pkg/util/reflector/prometheus" // reflector_*
	_ "github.com/gardener/machine-controller-manager/pkg/util/workqueue/prometheus" // workqueue_*
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"k8s.io/component-base/cli/flag"
	"k8s.io/component-base/logs"
	"k8s.io/klog/v2"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/internal/driveroptions"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/driverrpc"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/kubevirt"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/machineaddress"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "machine-controller:", err)
		os.Exit(1)
	}
}

func run() error {
	server := mcmoptions.NewMCServer()
	server.AddFlags(pflag.CommandLine)

	own := newOptions()
	own.addFlags(pflag.CommandLine)

	flag.InitFlags()
	logs.InitLogs()
	// InitLogs disables contextual logging, which keeps the contents of Secrets out of client-go's
	// logs at -v=8.
	klog.EnableContextualLogging(true)

	defer logs.FlushLogs()

	if own.version {
		fmt.Fprintln(os.Stdout, "machine-controller", driveroptions.Version())

		return nil
	}

	if err := own.validate(); err != nil {
		return err
	}

	return runController(context.Background(), server, own)
}

// runController runs machine-controller-manager with the driver and its background work.
func runController(ctx context.Context, server *mcmoptions.MCServer, own *options) error {
	control, err := newControlCluster(server)
	if err != nil {
		return err
	}

	addresses, err := control.addressRecorder()
	if err != nil {
		return err
	}

	measure, err := measureJoining(control)
	if err != nil {
		return err
	}

	p, err := own.newDriver(ctx, control, addresses)
	if err != nil {
		return err
	}

	go stopOnSignal(ctx, p.stop)

	return app.Run(server, whenLeading(ctx, orphanPass{addresses.Driver(p.driver)}, append(p.tasks, addresses.Run, measure)...))
}

// process is a driver with its background work in this process.
type process struct {
	driver driver.Driver
	// tasks run while this process is the leader.
	tasks []func(context.Context)
	// stop cancels the driver's calls.
	stop func(context.Context)
}

func (o *options) newDriver(ctx context.Context, control *controlCluster, addresses *machineaddress.Recorder) (*process, error) {
	if o.remote.endpoint != "" {
		return o.newRemote(ctx)
	}

	return o.newLocal(control, addresses)
}

// newLocal returns the driver in this process.
func (o *options) newLocal(control *controlCluster, addresses *machineaddress.Recorder) (*process, error) {
	events, err := control.eventRecorder()
	if err != nil {
		return nil, err
	}

	o.describeController(control.server)
	o.driver.Plugin.Events = events
	o.driver.Plugin.Addresses = addresses

	// machine-controller-manager serves /metrics from this registry.
	clusters, err := o.driver.ProviderClusters(prometheus.DefaultRegisterer)
	if err != nil {
		return nil, err
	}

	p := &process{}

	if o.evacuation.enabled {
		evacuations, err := o.evacuation.controller(control, clusters.Evacuator, events)
		if err != nil {
			return nil, err
		}

		o.driver.Plugin.Observers = []kubevirt.Observer{evacuations}
		p.tasks = []func(context.Context){evacuations.Run}
	}

	plugin, err := o.driver.NewPlugin(clusters.Machines, prometheus.DefaultRegisterer)
	if err != nil {
		return nil, err
	}

	p.driver = plugin
	p.stop = plugin.Stop

	return p, nil
}

// newRemote returns a driver over gRPC. It needs no stop: the driver cancels the calls of a process
// that exits.
func (o *options) newRemote(ctx context.Context) (*process, error) {
	client, err := o.remote.client()
	if err != nil {
		return nil, err
	}

	go logDriver(ctx, client, o.remote.endpoint)

	return &process{driver: client, stop: func(context.Context) {}}, nil
}

// logDriver logs the driver's name and version. Nothing depends on it: the driver may start later.
func logDriver(ctx context.Context, driver *driverrpc.Client, endpoint string) {
	info, err := driver.Info(ctx)
	if err != nil {
		klog.ErrorS(err, "The driver does not respond yet", "endpoint", endpoint)

		return
	}

	klog.InfoS("Using a driver over gRPC", "endpoint", endpoint, "name", info.Name, "version", info.Version)
}

// stopTime bounds the wait for calls in flight. Gardener's grace period for the pod is 5 s.
const stopTime = 2500 * time.Millisecond

// stopOnSignal shuts the process down gracefully. machine-controller-manager handles no signals.
func stopOnSignal(ctx context.Context, end func(context.Context)) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt)

	got := <-signals

	stop(ctx, end)
	klog.InfoS("Stopped on signal", "signal", got)
	logs.FlushLogs()
	os.Exit(0)
}

func stop(ctx context.Context, end func(context.Context)) {
	ctx, cancel := context.WithTimeout(ctx, stopTime)
	defer cancel()

	end(ctx)
}

// Command machine-controller runs machine-controller-manager's machine controller with the KubeVirt driver. Gardener injects it
// as a sidecar beside machine-controller-manager. It only wires: flags to options, options to the plugin or to a driver over gRPC,
// that to machine-controller-manager.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	_ "github.com/gardener/machine-controller-manager/pkg/util/client/metrics/prometheus" // rest_client_* of its clients, as in every driver
	"github.com/gardener/machine-controller-manager/pkg/util/provider/app"
	mcmoptions "github.com/gardener/machine-controller-manager/pkg/util/provider/app/options"
	_ "github.com/gardener/machine-controller-manager/pkg/util/reflector/prometheus" // reflector_*
	_ "github.com/gardener/machine-controller-manager/pkg/util/workqueue/prometheus" // workqueue_*
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"k8s.io/component-base/cli/flag"
	"k8s.io/component-base/logs"
	"k8s.io/klog/v2"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/cmd/internal/driverflags"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/driverrpc"
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
	// InitLogs turns it off, and with it what keeps the Secrets' contents out of client-go's logs at -v=8.
	klog.EnableContextualLogging(true)

	defer logs.FlushLogs()

	if own.version {
		fmt.Fprintln(os.Stdout, "machine-controller", driverflags.Version())

		return nil
	}

	if err := own.validate(); err != nil {
		return err
	}

	if own.remote.endpoint != "" {
		return runRemote(server, own)
	}

	return runLocal(server, own)
}

// runLocal has the driver in this process.
func runLocal(server *mcmoptions.MCServer, own *options) error {
	events, err := eventRecorder(server)
	if err != nil {
		return err
	}

	controller := controllerOf(server, own, events)

	// machine-controller-manager serves /metrics from this registry.
	provider, err := own.plugin.Provider(controller, prometheus.DefaultRegisterer)
	if err != nil {
		return err
	}

	controller.Observers, err = own.evacuation.start(context.Background(), server, provider, events)
	if err != nil {
		return err
	}

	addresses, err := addressRecorder(server)
	if err != nil {
		return err
	}

	controller.Addresses = addresses

	driver := own.plugin.Plugin(controller, provider)
	if err := driver.RegisterMetrics(prometheus.DefaultRegisterer); err != nil {
		return err
	}

	measured, err := measureJoining(server, addresses.Driver(driver))
	if err != nil {
		return err
	}

	go addresses.Run(context.Background())
	go stopOnSignal(driver.Stop)

	return app.Run(server, measured)
}

// runRemote uses a driver over gRPC, which cancels the calls of a process that ends.
func runRemote(server *mcmoptions.MCServer, own *options) error {
	driver, err := own.remote.driver()
	if err != nil {
		return err
	}

	addresses, err := addressRecorder(server)
	if err != nil {
		return err
	}

	measured, err := measureJoining(server, addresses.Driver(driver))
	if err != nil {
		return err
	}

	go announce(context.Background(), driver, own.remote.endpoint)
	go stopOnSignal(func(context.Context) {})

	return app.Run(server, measured)
}

// announce logs the driver's name and version. Nothing depends on it: the driver may start later.
func announce(ctx context.Context, driver *driverrpc.Client, endpoint string) {
	info, err := driver.Info(ctx)
	if err != nil {
		klog.ErrorS(err, "The driver does not respond yet", "endpoint", endpoint)

		return
	}

	klog.InfoS("Using a driver over gRPC", "endpoint", endpoint, "name", info.Name, "version", info.Version)
}

// stopTime is how long calls in flight may take to end. Gardener gives the pod 5 s.
const stopTime = 2500 * time.Millisecond

// stopOnSignal shuts the process down gracefully. machine-controller-manager handles no signals.
func stopOnSignal(end func(context.Context)) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt)

	got := <-signals

	stop(context.Background(), end)
	klog.InfoS("Stopped on signal", "signal", got)
	logs.FlushLogs()
	os.Exit(0)
}

func stop(ctx context.Context, end func(context.Context)) {
	ctx, cancel := context.WithTimeout(ctx, stopTime)
	defer cancel()

	end(ctx)
}

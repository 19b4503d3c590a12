// Command machine-controller runs machine-controller-manager's machine controller with the KubeVirt driver. Gardener injects it
// as a sidecar beside machine-controller-manager. It only wires: flags to options, options to the plugin, the plugin to
// machine-controller-manager.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/util/provider/app"
	mcmoptions "github.com/gardener/machine-controller-manager/pkg/util/provider/app/options"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"k8s.io/component-base/cli/flag"
	"k8s.io/component-base/logs"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/goldenimage"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/kubeconfig"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/kubevirt"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/machineclass"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi/providercluster"
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

	if err := own.validate(); err != nil {
		return err
	}

	events, err := eventRecorder(server)
	if err != nil {
		return err
	}

	provider := providerCluster(server, own)

	classes, err := classTracker(server, provider, own.allowed())
	if err != nil {
		return err
	}

	driver := kubevirt.New(provider, kubevirt.Options{
		CreationTimeout: server.SafetyOptions.MachineCreationTimeout.Duration,
		CSIDriverName:   own.csiDriverName,
		Allowed:         own.allowed(),
		Events:          events,
		Classes:         classes,
	})

	go classes.Run(context.Background())
	go stopOnSignal(driver, classes)

	return app.Run(server, driver)
}

// stopTime is how long calls in flight may take to end. Gardener gives the pod 5 s.
const stopTime = 2 * time.Second

// stopOnSignal ends the process in order. machine-controller-manager handles no signals.
func stopOnSignal(driver *kubevirt.MachinePlugin, classes *machineclass.Tracker) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt)

	got := <-signals

	stop(context.Background(), driver, classes)
	klog.InfoS("Stopped; the next process continues", "signal", got)
	logs.FlushLogs()
	os.Exit(0)
}

func stop(ctx context.Context, driver *kubevirt.MachinePlugin, classes *machineclass.Tracker) {
	ctx, cancel := context.WithTimeout(ctx, stopTime)
	defer cancel()

	var sweeping sync.WaitGroup
	defer sweeping.Wait()

	sweeping.Go(func() { classes.Stop(ctx) })
	driver.Stop(ctx)
}

func providerCluster(server *mcmoptions.MCServer, own *options) *providercluster.Provider {
	clients := kubeconfig.NewCache(kubeconfig.Options{QPS: own.providerQPS, Burst: own.providerBurst})
	images := goldenimage.NewKeeper(clock.RealClock{})
	prometheus.MustRegister(clients, images) // machine-controller-manager serves /metrics from this registry.

	return providercluster.New(own.provider(server, clients, images))
}

// Command machine-controller runs machine-controller-manager's machine controller with the KubeVirt driver. Gardener injects it
// as a sidecar beside machine-controller-manager. It only wires: flags to options, options to the plugin, the plugin to
// machine-controller-manager.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
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

	driver := plugin(server, own, events)
	go stopOnSignal(driver)

	return app.Run(server, driver)
}

// stopTime is how long calls in flight may take to end. Gardener gives the pod 5 s.
const stopTime = 2 * time.Second

// stopOnSignal ends the process in order. machine-controller-manager handles no signals.
func stopOnSignal(driver *kubevirt.MachinePlugin) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt)

	got := <-signals

	stop(context.Background(), driver)
	klog.InfoS("Stopped; the next process continues", "signal", got)
	logs.FlushLogs()
	os.Exit(0)
}

func stop(ctx context.Context, driver *kubevirt.MachinePlugin) {
	ctx, cancel := context.WithTimeout(ctx, stopTime)
	defer cancel()

	driver.Stop(ctx)
}

func plugin(server *mcmoptions.MCServer, own *options, events kubevirt.EventRecorder) *kubevirt.MachinePlugin {
	clients := kubeconfig.NewCache(kubeconfig.Options{QPS: own.providerQPS, Burst: own.providerBurst})
	images := goldenimage.NewKeeper(clock.RealClock{})
	prometheus.MustRegister(clients, images) // machine-controller-manager serves /metrics from this registry.

	return kubevirt.New(providercluster.New(own.provider(server, clients, images)), kubevirt.Options{
		CreationTimeout: server.SafetyOptions.MachineCreationTimeout.Duration,
		CSIDriverName:   own.csiDriverName,
		Allowed:         own.allowed(),
		Events:          events,
	})
}

// Command machine-controller runs machine-controller-manager's machine controller with the KubeVirt driver. Gardener injects it
// as a sidecar beside machine-controller-manager. It only wires: flags to options, options to the plugin, the plugin to
// machine-controller-manager.
package main

import (
	"fmt"
	"os"

	"github.com/gardener/machine-controller-manager/pkg/util/provider/app"
	mcmoptions "github.com/gardener/machine-controller-manager/pkg/util/provider/app/options"
	"github.com/spf13/pflag"
	"k8s.io/component-base/cli/flag"
	"k8s.io/component-base/logs"
	_ "k8s.io/component-base/metrics/prometheus/restclient" // Exports the rest_client metrics that operators expect.
	_ "k8s.io/component-base/metrics/prometheus/version"    // Exports the build information metric.
	_ "k8s.io/component-base/metrics/prometheus/workqueue"  // Exports the workqueue metrics that operators expect.

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

	defer logs.FlushLogs()

	if err := own.validate(); err != nil {
		return err
	}

	return app.Run(server, plugin(server, own))
}

func plugin(server *mcmoptions.MCServer, own *options) *kubevirt.MachinePlugin {
	clients := kubeconfig.NewCache(kubeconfig.Options{QPS: own.providerQPS, Burst: own.providerBurst})

	return kubevirt.New(providercluster.New(own.provider(server, clients)), kubevirt.Options{
		CreationTimeout: server.SafetyOptions.MachineCreationTimeout.Duration,
		CSIDriverName:   own.csiDriverName,
		Allowed:         own.allowed(),
	})
}

// Package driveroptions defines the driver's options and their flags, and creates the driver from
// them. It is the only place that wires the plugin to its provider clusters: machine-controller
// runs the driver in its process, mcm-kubevirt serve over gRPC, mcm-kubevirt diagnose uses it to
// explain machines, and the integration tests change settings that have no flag. It must not know
// how the driver is called.
package driveroptions

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"k8s.io/utils/clock"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1/validation"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/evacuation/provider"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/images"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/kubevirt"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi/transport"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providercluster"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// Controller describes the machine controller that calls the driver.
type Controller struct {
	// CreationTimeout is the time after which a machine that has not joined is replaced, unless the
	// Machine sets its own.
	CreationTimeout time.Duration
	// OrphanPeriod is the period of its search for orphans.
	OrphanPeriod time.Duration
	// Workers is the maximum number of its concurrent calls.
	Workers int
	// NoTarget is set if it runs without a target cluster.
	NoTarget bool
	// Evacuation is set if it runs with --evacuation.
	Evacuation bool
	// Observers are notified of the classes in its requests.
	Observers []kubevirt.Observer
	// Events records the progress of machines; nil to record nothing.
	Events kubevirt.EventRecorder
	// Addresses records the addresses of machines; nil to return them only in responses.
	Addresses kubevirt.Addresses
	// Kubeconfigs provides the kubeconfigs of provider clusters; nil to use those in the requests.
	Kubeconfigs kubevirt.Kubeconfigs
}

// Options are the driver's options.
type Options struct {
	// ProviderQPS limits the requests per second to one provider cluster; a burst may have twice as
	// many.
	ProviderQPS float32
	// UnschedulableGrace is how long a failure must last before it is reported.
	UnschedulableGrace time.Duration
	// OrphanGracePeriod is how long a VirtualMachine must be orphaned before it is deleted.
	OrphanGracePeriod time.Duration
	// TemplatePolicy restricts virtualMachineTemplate in ProviderSpecs.
	TemplatePolicy validation.TemplatePolicy
	// AllowInternalServers allows kubeconfigs with servers of the driver's own host and cluster.
	AllowInternalServers bool

	// The fields below have no flag.

	// RetryFor is how long transient errors of the provider cluster are retried within a call:
	// machine-controller-manager treats every error as a failed machine.
	RetryFor time.Duration
	// InitializeWait and MaxDeleteWait are those of providercluster.Options.
	InitializeWait, MaxDeleteWait time.Duration
	// Clock is the clock for grace periods, and ImageClock for the age of golden images.
	Clock      clock.Clock
	ImageClock clock.PassiveClock
	// WrapTransport, if set, wraps the transport of all requests to provider clusters.
	WrapTransport func(http.RoundTripper) http.RoundTripper
}

// New returns the defaults.
func New() *Options {
	return &Options{
		ProviderQPS:          100,
		UnschedulableGrace:   30 * time.Second,
		OrphanGracePeriod:    10 * time.Minute,
		TemplatePolicy:       validation.TemplateSafe,
		AllowInternalServers: true,
		RetryFor:             15 * time.Second,
		Clock:                clock.RealClock{},
		ImageClock:           clock.RealClock{},
	}
}

// AddFlags adds the flags to those of a command.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.Float32Var(&o.ProviderQPS, "provider-kube-api-qps", o.ProviderQPS,
		"Maximum requests per second to the API server of one provider cluster, with bursts of twice as many; lower it if many shoots share a "+
			"small provider cluster.")
	fs.DurationVar(&o.UnschedulableGrace, "unschedulable-grace", o.UnschedulableGrace,
		"How long a lack of capacity, quota or a permission must last before it is reported; raise it if the provider cluster's own "+
			"autoscaler needs longer to add nodes. A failure that the provider cluster retries, such as an import, is reported after twice that "+
			"time, and a failure that usually resolves itself after ten times that time.")
	fs.DurationVar(&o.OrphanGracePeriod, "orphan-grace-period", o.OrphanGracePeriod,
		"Minimum time a VirtualMachine must be orphaned before it is deleted; raise it if an old and a new control plane may run at the same time "+
			"for longer while a shoot is moved.")
	fs.StringVar((*string)(&o.TemplatePolicy), "virtual-machine-template", string(o.TemplatePolicy),
		"Allowed content of virtualMachineTemplate in a ProviderSpec: none, safe (no host disks, service accounts or hook sidecars) or all; set it "+
			"depending on the trust in the owners of MachineClasses.")
	fs.BoolVar(&o.AllowInternalServers, "allow-internal-provider-servers", o.AllowInternalServers,
		"Allow kubeconfigs whose server is a loopback or link-local address, or a service of the driver's own cluster; set it to false if the "+
			"authors of kubeconfigs must not reach servers in the network of the driver, such as shoot owners in a seed.")
}

// servers returns the servers to which the driver may send requests.
func (o *Options) servers() transport.Servers {
	if o.AllowInternalServers {
		return transport.AnyServer
	}

	return transport.ExternalServers
}

// Validate returns an error that lists all flags with an invalid value.
func (o *Options) Validate() error {
	return errors.Join(
		require(o.ProviderQPS > 0, "--provider-kube-api-qps must be greater than zero"),
		require(o.UnschedulableGrace >= 0, "--unschedulable-grace must not be negative"),
		require(o.OrphanGracePeriod >= 0, "--orphan-grace-period must not be negative"),
		require(slices.Contains(validation.TemplatePolicies, o.TemplatePolicy), "--virtual-machine-template must be none, safe or all"),
	)
}

func require(ok bool, message string) error {
	if ok {
		return nil
	}

	return errors.New(message)
}

// ProviderClusters gives access to provider clusters, with shared clients.
type ProviderClusters struct {
	Machines  *providercluster.Machines
	Explainer *providercluster.Explainer
	Evacuator *provider.Evacuator
}

// ProviderClusters returns the access to provider clusters, and registers the metrics of clients
// and golden images.
func (o *Options) ProviderClusters(controller Controller, metrics prometheus.Registerer) (*ProviderClusters, error) {
	clients := providerapi.NewCache(providerapi.Options{
		QPS:           o.ProviderQPS,
		Burst:         max(1, int(2*o.ProviderQPS)),
		RetryFor:      o.RetryFor,
		Servers:       o.servers(),
		Called:        counted,
		WrapTransport: o.WrapTransport,
	})
	manager := images.NewManager(o.ImageClock, controller.OrphanPeriod)

	if err := errors.Join(metrics.Register(clients), metrics.Register(manager)); err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}

	return &ProviderClusters{
		Machines: providercluster.NewMachines(clients, manager, providercluster.Options{
			UnschedulableGrace: o.UnschedulableGrace,
			OrphanGracePeriod:  o.OrphanGracePeriod,
			OrphanPeriod:       controller.OrphanPeriod,
			Workers:            controller.Workers,
			NeedAddress:        controller.NoTarget,
			InitializeWait:     o.InitializeWait,
			MaxDeleteWait:      o.MaxDeleteWait,
			Clock:              o.Clock,
		}),
		Explainer: providercluster.NewExplainer(clients, o.Clock, o.UnschedulableGrace),
		Evacuator: provider.New(clients),
	}, nil
}

func counted(c providerapi.Call) { kubevirt.CountRequest(c.Service, c.Duration, c.Failed) }

// Plugin returns the driver on top of the given PluginSPI, and registers its metrics.
func (o *Options) Plugin(controller Controller, provider spi.PluginSPI, metrics prometheus.Registerer) (*kubevirt.MachinePlugin, error) {
	plugin := kubevirt.New(provider, kubevirt.Options{
		CreationTimeout: controller.CreationTimeout,
		Allowed:         validation.Options{Template: o.TemplatePolicy, Evacuation: controller.Evacuation},
		Events:          controller.Events,
		Observers:       controller.Observers,
		Addresses:       controller.Addresses,
		Kubeconfigs:     controller.Kubeconfigs,
	})

	return plugin, plugin.RegisterMetrics(metrics)
}

// Package driverflags defines the driver's own flags, and creates the driver from them. Both
// commands that run a driver use it: machine-controller in its process, mcm-kubevirt serve over
// gRPC. It must not know how the driver is called.
package driverflags

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"k8s.io/utils/clock"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1/validation"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/images"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/kubevirt"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi/providercluster"
)

const (
	// retryFor is how long transient errors of the provider cluster are retried within a call:
	// machine-controller-manager treats every error as a failed machine.
	retryFor = 15 * time.Second
	// initializeWait is how long a worker waits for a machine to be scheduled before it reconciles
	// other machines.
	initializeWait = 15 * time.Second
	// maxDeleteWait is how long a worker waits for a guest to shut down: the longest grace period
	// that a ProviderSpec can set.
	maxDeleteWait = validation.MaxTerminationGracePeriod + providercluster.DeleteSlack
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
	// NoTarget reports whether it runs without a target cluster.
	NoTarget bool
	// Evacuation reports whether it runs with --evacuation.
	Evacuation bool
	// Observers are notified of the classes in its requests.
	Observers []kubevirt.Observer
	// Events records the progress of machines; nil to record nothing.
	Events kubevirt.EventRecorder
	// Addresses records the addresses of machines; nil to return them only in responses.
	Addresses kubevirt.Addresses
}

// Options are the driver's own flags.
type Options struct {
	providerQPS        float32
	providerBurst      int
	unschedulableGrace time.Duration
	orphanGracePeriod  time.Duration
	csiDriverName      string
	templatePolicy     string
}

// New returns the defaults.
func New() *Options {
	return &Options{
		providerQPS:        100,
		providerBurst:      200,
		unschedulableGrace: 30 * time.Second,
		orphanGracePeriod:  10 * time.Minute,
		csiDriverName:      "csi.kubevirt.io",
		templatePolicy:     string(validation.TemplateSafe),
	}
}

// AddFlags adds the flags to those of a command.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.Float32Var(&o.providerQPS, "provider-kube-api-qps", o.providerQPS,
		"Maximum requests per second to the API server of one provider cluster; lower it if many shoots share a small provider cluster.")
	fs.IntVar(&o.providerBurst, "provider-kube-api-burst", o.providerBurst,
		"Maximum burst of requests to the API server of one provider cluster; set it together with --provider-kube-api-qps.")
	fs.DurationVar(&o.unschedulableGrace, "unschedulable-grace", o.unschedulableGrace,
		"Time for which a failure (no room, no quota, no permission) must last before it is reported; raise it if the provider cluster's own "+
			"autoscaler needs longer to add nodes. A failure that the provider cluster retries, such as an import, is reported after twice that "+
			"time, and a failure that usually resolves itself after ten times that time.")
	fs.DurationVar(&o.orphanGracePeriod, "orphan-grace-period", o.orphanGracePeriod,
		"Minimum time a VirtualMachine must be orphaned before it is deleted; raise it if an old and a new control plane may run at the same time "+
			"for longer while a shoot is moved.")
	fs.StringVar(&o.csiDriverName, "csi-driver-name", o.csiDriverName,
		"Name of the shoot's CSI driver; set it if the shoot uses another driver than KubeVirt's, so that drains wait until its volumes are detached.")
	fs.StringVar(&o.templatePolicy, "virtual-machine-template", o.templatePolicy,
		"Allowed content of virtualMachineTemplate in a ProviderSpec: none, safe (no host disks, service accounts or hook sidecars) or all; set it "+
			"depending on the trust in the owners of MachineClasses.")
}

// Validate returns an error that lists all flags with an invalid value.
func (o *Options) Validate() error {
	return errors.Join(
		require(o.providerQPS > 0, "--provider-kube-api-qps must be greater than zero"),
		require(o.providerBurst > 0, "--provider-kube-api-burst must be greater than zero"),
		require(o.unschedulableGrace >= 0, "--unschedulable-grace must not be negative"),
		require(o.orphanGracePeriod >= 0, "--orphan-grace-period must not be negative"),
		require(o.csiDriverName != "", "--csi-driver-name must not be empty"),
		require(slices.Contains(validation.TemplatePolicies, validation.TemplatePolicy(o.templatePolicy)), "--virtual-machine-template must be none, safe or all"),
	)
}

func require(ok bool, message string) error {
	if ok {
		return nil
	}

	return errors.New(message)
}

// Provider returns the PluginSPI on provider clusters, and registers the metrics of its clients and
// golden images.
func (o *Options) Provider(controller Controller, metrics prometheus.Registerer) (*providercluster.Provider, error) {
	clients := providerapi.NewCache(providerapi.Options{QPS: o.providerQPS, Burst: o.providerBurst, RetryFor: retryFor, Called: counted})
	manager := images.NewManager(clock.RealClock{}, controller.OrphanPeriod)

	if err := errors.Join(metrics.Register(clients), metrics.Register(manager)); err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}

	return providercluster.New(o.provider(controller, clients, manager)), nil
}

func counted(c providerapi.Call) { kubevirt.CountRequest(c.Service, c.Duration, c.Failed) }

// Plugin returns the driver that uses the given PluginSPI.
func (o *Options) Plugin(controller Controller, provider spi.PluginSPI) *kubevirt.MachinePlugin {
	return kubevirt.New(provider, kubevirt.Options{
		CreationTimeout: controller.CreationTimeout,
		CSIDriverName:   o.csiDriverName,
		Allowed:         o.Allowed(controller),
		Events:          controller.Events,
		Observers:       controller.Observers,
		Addresses:       controller.Addresses,
	})
}

// Allowed returns the validation rules for ProviderSpecs.
func (o *Options) Allowed(controller Controller) validation.Options {
	return validation.Options{Template: validation.TemplatePolicy(o.templatePolicy), Evacuation: controller.Evacuation}
}

// provider returns the options of the PluginSPI.
func (o *Options) provider(controller Controller, clients *providerapi.Cache, manager *images.Manager) providercluster.Options {
	return providercluster.Options{
		Clients:            clients,
		Images:             manager,
		Clock:              clock.RealClock{},
		InitializeWait:     initializeWait,
		UnschedulableGrace: o.unschedulableGrace,
		OrphanGracePeriod:  o.orphanGracePeriod,
		OrphanMemory:       o.orphanGracePeriod + 2*controller.OrphanPeriod,
		MaxDeleteWait:      maxDeleteWait,
		MaxWaiting:         max(1, controller.Workers/2),
		NeedAddress:        controller.NoTarget,
	}
}

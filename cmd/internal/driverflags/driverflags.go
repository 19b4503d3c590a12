// Package driverflags are the driver's own flags, and the driver that they make. Both commands that run a driver have them:
// machine-controller in its process, mcm-kubevirt serve over gRPC. It must not know how the driver is called.
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
	// retryFor is how long a blip of the provider cluster is kept from machine-controller-manager, for which every error is a
	// failed machine.
	retryFor = 15 * time.Second
	// initializeWait is how long a worker waits for a machine to be scheduled before it looks after others.
	initializeWait = 15 * time.Second
	// maxDeleteWait is how long a worker waits for any guest to shut down: for as long as a ProviderSpec can ask for.
	maxDeleteWait = validation.MaxTerminationGracePeriod + providercluster.DeleteSlack
)

// Controller is what the driver has to know about the machine controller that calls it.
type Controller struct {
	// CreationTimeout is how long a machine may take until it is replaced, if it has no limit of its own.
	CreationTimeout time.Duration
	// OrphanPeriod is how often it looks for machines that it does not know.
	OrphanPeriod time.Duration
	// Workers is how many calls it makes at a time.
	Workers int
	// NoTarget says that it runs without a target cluster.
	NoTarget bool
	// Evacuation says that it acts when provider nodes are drained.
	Evacuation bool
	// Observers are told of the classes in its requests.
	Observers []kubevirt.Observer
	// Events takes the machines' progress; nil: nobody is told.
	Events kubevirt.EventRecorder
	// Addresses is told where machines were seen; nil: only responses tell.
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

// AddFlags adds the flags to a command's.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.Float32Var(&o.providerQPS, "provider-kube-api-qps", o.providerQPS,
		"Requests per second to the API server of one provider cluster.")
	fs.IntVar(&o.providerBurst, "provider-kube-api-burst", o.providerBurst,
		"Requests to the API server of one provider cluster that may exceed --provider-kube-api-qps for a moment.")
	fs.DurationVar(&o.unschedulableGrace, "unschedulable-grace", o.unschedulableGrace,
		"How long a machine must have been refused (no room, no quota, no right) before that is reported. What the provider cluster "+
			"itself tries again, as imports, is reported after twice that, and what usually goes away by itself after ten times that.")
	fs.DurationVar(&o.orphanGracePeriod, "orphan-grace-period", o.orphanGracePeriod,
		"How long a VirtualMachine must have been known to have no Machine before it is deleted.")
	fs.StringVar(&o.csiDriverName, "csi-driver-name", o.csiDriverName,
		"Name of the CSI driver of the shoot whose volumes' detachment is awaited on drain.")
	fs.StringVar(&o.templatePolicy, "virtual-machine-template", o.templatePolicy,
		"What virtualMachineTemplate of a ProviderSpec may hold: none, safe (no host disks, no service accounts, no hook sidecars) or all.")
}

// Validate names every flag with a value that cannot be.
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

// Provider returns the provider cluster's layer. It exports the metrics of its clients and golden images.
func (o *Options) Provider(controller Controller, metrics prometheus.Registerer) (*providercluster.Provider, error) {
	clients := providerapi.NewCache(providerapi.Options{QPS: o.providerQPS, Burst: o.providerBurst, RetryFor: retryFor, Called: counted})
	manager := images.NewManager(clock.RealClock{}, controller.OrphanPeriod)

	if err := errors.Join(metrics.Register(clients), metrics.Register(manager)); err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}

	return providercluster.New(o.provider(controller, clients, manager)), nil
}

func counted(c providerapi.Call) { kubevirt.CountRequest(c.Service, c.Duration, c.Failed) }

// Plugin returns the driver in front of the provider cluster's layer.
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

// Allowed returns what a ProviderSpec may hold.
func (o *Options) Allowed(controller Controller) validation.Options {
	return validation.Options{Template: validation.TemplatePolicy(o.templatePolicy), Evacuation: controller.Evacuation}
}

// provider returns the options of the provider cluster's layer.
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

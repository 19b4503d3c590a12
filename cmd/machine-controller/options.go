package main

import (
	"errors"
	"slices"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/constants"
	mcmoptions "github.com/gardener/machine-controller-manager/pkg/util/provider/app/options"
	"github.com/spf13/pflag"
	"k8s.io/utils/clock"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1/validation"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/goldenimage"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/kubeconfig"
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

// options are the driver's own flags, beside machine-controller-manager's.
type options struct {
	providerQPS        float32
	providerBurst      int
	unschedulableGrace time.Duration
	orphanGracePeriod  time.Duration
	csiDriverName      string
	templatePolicy     string
}

func newOptions() *options {
	return &options{
		providerQPS:        100,
		providerBurst:      200,
		unschedulableGrace: 30 * time.Second,
		orphanGracePeriod:  10 * time.Minute,
		csiDriverName:      "csi.kubevirt.io",
		templatePolicy:     string(validation.TemplateSafe),
	}
}

func (o *options) addFlags(fs *pflag.FlagSet) {
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

func (o *options) validate() error {
	return errors.Join(
		require(o.providerQPS > 0, "--provider-kube-api-qps must be greater than zero"),
		require(o.providerBurst > 0, "--provider-kube-api-burst must be greater than zero"),
		require(o.unschedulableGrace >= 0, "--unschedulable-grace must not be negative"),
		require(o.orphanGracePeriod >= 0, "--orphan-grace-period must not be negative"),
		require(o.csiDriverName != "", "--csi-driver-name must not be empty"),
		require(slices.Contains(validation.TemplatePolicies, o.allowed().Template), "--virtual-machine-template must be none, safe or all"),
	)
}

func require(ok bool, message string) error {
	if ok {
		return nil
	}

	return errors.New(message)
}

// allowed returns what a ProviderSpec may hold.
func (o *options) allowed() validation.Options {
	return validation.Options{Template: validation.TemplatePolicy(o.templatePolicy)}
}

// provider returns the options of the provider cluster's layer.
func (o *options) provider(
	server *mcmoptions.MCServer, clients *kubeconfig.Cache, images *goldenimage.Keeper,
) providercluster.Options {
	return providercluster.Options{
		Clients:            clients,
		Images:             images,
		Clock:              clock.RealClock{},
		RetryFor:           retryFor,
		InitializeWait:     initializeWait,
		UnschedulableGrace: o.unschedulableGrace,
		OrphanGracePeriod:  o.orphanGracePeriod,
		OrphanMemory:       o.orphanGracePeriod + 2*server.SafetyOptions.MachineSafetyOrphanVMsPeriod.Duration,
		MaxDeleteWait:      maxDeleteWait,
		MaxWaiting:         max(1, int(server.ConcurrentNodeSyncs)/2),
		NeedAddress:        server.TargetKubeconfig == constants.TargetKubeconfigDisabledValue,
	}
}

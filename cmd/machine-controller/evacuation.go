package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	machineclient "github.com/gardener/machine-controller-manager/pkg/client/clientset/versioned"
	mcmoptions "github.com/gardener/machine-controller-manager/pkg/util/provider/app/options"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/evacuation"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/kubevirt"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

const (
	// controlTimeout bounds one request of an evacuation to the control cluster.
	controlTimeout = 30 * time.Second
	// evacuationPeriod is how often a look is taken at the Machines while some are on their way: two requests.
	evacuationPeriod = 5 * time.Second
	// migrationTimeout is how long a live migration may wait while none from its node advances. It exceeds the 15 min after which
	// KubeVirt gives up on a target's pod, which lets the next migration have its place.
	migrationTimeout = 30 * time.Minute
)

// evacuationOptions are the flags of evacuation.
type evacuationOptions struct {
	enabled          bool
	maxPerDeployment int
	deadline         time.Duration
}

func newEvacuationOptions() evacuationOptions {
	return evacuationOptions{maxPerDeployment: 1, deadline: 150 * time.Minute}
}

func (o *evacuationOptions) addFlags(fs *pflag.FlagSet) {
	fs.BoolVar(&o.enabled, "evacuation", o.enabled,
		"Act when a provider node is drained: live-migrate machines, or have them drained and replaced. Machines get evictionStrategy "+
			"External, unless their class names another one. It needs the rights in kubernetes/evacuation.")
	fs.IntVar(&o.maxPerDeployment, "evacuation-max-per-deployment", o.maxPerDeployment,
		"How many Machines of a MachineDeployment may leave their provider nodes at a time, and how many may be missing meanwhile.")
	fs.DurationVar(&o.deadline, "evacuation-deadline", o.deadline,
		"How long a machine may wait for others to be healthy before it leaves its provider node all the same, and how long the "+
			"deletion of its Machine may then take before it is powered off. It should exceed --machine-drain-timeout.")
}

func (o *evacuationOptions) validate() error {
	switch {
	case o.maxPerDeployment <= 0:
		return errors.New("--evacuation-max-per-deployment must be greater than zero")
	case o.deadline <= 0:
		return errors.New("--evacuation-deadline must be greater than zero")
	default:
		return nil
	}
}

// start begins to wait for the driver's first call, which begins the rest. It returns who has to be told of the calls.
func (o *evacuationOptions) start(
	ctx context.Context, server *mcmoptions.MCServer, evacuator spi.Evacuator, events evacuation.EventRecorder,
) ([]kubevirt.Observer, error) {
	if !o.enabled {
		return nil, nil
	}

	config, err := controlConfig(server)
	if err != nil {
		return nil, err
	}

	config.Timeout = controlTimeout

	client, err := machineclient.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make client of the control cluster: %w", err)
	}

	if drain := server.SafetyOptions.MachineDrainTimeout.Duration; o.deadline <= drain {
		klog.InfoS("--evacuation-deadline does not exceed --machine-drain-timeout: machines may be powered off while they are drained",
			"deadline", o.deadline, "drainTimeout", drain)
	}

	controller := evacuation.New(evacuation.Options{
		Evacuator: evacuator,
		Machines:  client.MachineV1alpha1(),
		Namespace: server.Namespace,
		Events:    events,
		Clock:     clock.RealClock{},
		Limits: evacuation.Limits{
			MaxPerDeployment: o.maxPerDeployment, Deadline: o.deadline, MigrationTimeout: migrationTimeout,
		},
		Period:      evacuationPeriod,
		ClassMemory: 2*server.SafetyOptions.MachineSafetyOrphanVMsPeriod.Duration + time.Hour,
	})
	prometheus.MustRegister(controller)

	go controller.Run(ctx)

	return []kubevirt.Observer{controller}, nil
}

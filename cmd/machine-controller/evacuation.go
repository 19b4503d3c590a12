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
	// evacuationPeriod is the interval at which ongoing evacuations are checked, with two requests to
	// the control cluster.
	evacuationPeriod = 5 * time.Second
	// migrationTimeout is how long a live migration may wait while none from its node advances. It
	// exceeds the 15 min after which KubeVirt gives up on a target pod and starts the next migration.
	migrationTimeout = 30 * time.Minute
)

// evacuationOptions are the flags of pkg/evacuation.
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
			"External, unless their class sets another one. Requires the permissions in kubernetes/evacuation.")
	fs.IntVar(&o.maxPerDeployment, "evacuation-max-per-deployment", o.maxPerDeployment,
		"How many Machines of a MachineDeployment may be evacuated from provider nodes at the same time, and how many may be missing.")
	fs.DurationVar(&o.deadline, "evacuation-deadline", o.deadline,
		"How long a machine waits for its MachineDeployment to be healthy before it is evacuated regardless, and how long the "+
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

// start runs the evacuation controller in the background, which does nothing before the driver's
// first request. It returns the observers of the driver's requests.
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
		return nil, fmt.Errorf("create client for the control cluster: %w", err)
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
		Period:         evacuationPeriod,
		ClassRetention: 2*server.SafetyOptions.MachineSafetyOrphanVMsPeriod.Duration + time.Hour,
	})
	prometheus.MustRegister(controller)

	go controller.Run(ctx)

	return []kubevirt.Observer{controller}, nil
}

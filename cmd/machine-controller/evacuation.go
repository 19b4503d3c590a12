// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/evacuation"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

const (
	// controlTimeout bounds one request of an evacuation to the control cluster.
	controlTimeout = 30 * time.Second
	// evacuationPeriod is the interval at which ongoing evacuations are checked, with two requests
	// to the control cluster.
	evacuationPeriod = 5 * time.Second
	// migrationTimeout is how long a live migration may wait while no migration from its node
	// advances. It exceeds the 15 min after which KubeVirt gives up on a target pod and starts the
	// next migration.
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
			"LiveMigrate if they are known to be able to live-migrate, and External otherwise, unless their class sets another one. Set it if the admin of the provider cluster drains nodes and has granted the "+
			"permissions in kubernetes/evacuation.")
	fs.IntVar(&o.maxPerDeployment, "evacuation-max-per-deployment", o.maxPerDeployment,
		"Maximum number of Machines per MachineDeployment that may be unavailable or in evacuation at the same time; raise it "+
			"to drain the nodes of a large worker pool faster.")
	fs.DurationVar(&o.deadline, "evacuation-deadline", o.deadline,
		"How long a machine waits for its MachineDeployment to be healthy before it is evacuated regardless, and how long the "+
			"deletion of its Machine may then take before it is powered off; raise it with --machine-drain-timeout, which it should exceed.")
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

// controller returns the evacuation controller, which observes the driver's requests. The leader
// runs it.
func (o *evacuationOptions) controller(control *controlCluster, evacuator spi.Evacuator, events record.EventRecorder) (*evacuation.Controller, error) {
	config := rest.CopyConfig(control.config)
	config.Timeout = controlTimeout

	machines, err := machinesClient(config)
	if err != nil {
		return nil, err
	}

	safety := &control.server.SafetyOptions
	if drain := safety.MachineDrainTimeout.Duration; o.deadline <= drain {
		klog.InfoS("--evacuation-deadline does not exceed --machine-drain-timeout: machines may be powered off while they are drained",
			"deadline", o.deadline, "drainTimeout", drain)
	}

	controller := evacuation.New(evacuation.Options{
		Evacuator: evacuator,
		Machines:  machines,
		Namespace: control.server.Namespace,
		Events:    events,
		Clock:     clock.RealClock{},
		Limits: evacuation.Limits{
			MaxPerDeployment: o.maxPerDeployment,
			Deadline:         o.deadline,
			MigrationTimeout: migrationTimeout,
		},
		Period:         evacuationPeriod,
		ClassRetention: 2*safety.MachineSafetyOrphanVMsPeriod.Duration + time.Hour,
	})

	if err := prometheus.Register(controller); err != nil {
		return nil, fmt.Errorf("register the metrics of evacuations: %w", err)
	}

	return controller, nil
}

// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"cmp"
	"net/http"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/util/provider/driver"
	"github.com/prometheus/client_golang/prometheus"
	clientrecord "k8s.io/client-go/tools/record"
	clienttransport "k8s.io/client-go/transport"
	"k8s.io/utils/clock"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/internal/driveroptions"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/evacuation/provider"
	plugin "github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/kubevirt"
)

// Settings are the driver settings that tests change.
type Settings struct {
	Clock clock.Clock
	// ImageClock determines whether golden images are old enough to be replaced; nil: Clock.
	ImageClock clock.PassiveClock
	Wrap       func(http.RoundTripper) http.RoundTripper
	Grace      time.Duration
	// Wait is how long InitializeMachine waits; zero: as long as in the sidecar.
	Wait time.Duration
	// DeleteWait bounds how long DeleteMachine waits; zero: as long as in the sidecar.
	DeleteWait time.Duration
	// Retry is how long a call retries; zero: as long as in the sidecar.
	Retry time.Duration
	// Events receives the driver's Events of machines; nil: discarded.
	Events clientrecord.EventRecorder
	// Bootstrap selects the mode without a target cluster.
	Bootstrap bool
	// Observers are notified of the classes of requests; with at least one,
	// drains trigger evacuation.
	Observers []plugin.Observer
}

// NewDriver returns the driver, wired as the sidecar and mcm-kubevirt serve wire it, with recorded
// calls.
func NewDriver(o Settings) driver.Driver {
	d, err := o.options().NewPlugin(o.clusters().Machines, prometheus.NewRegistry())
	if err != nil {
		panic(err) // The registry is new.
	}

	return recorder.driver(d)
}

// NewEvacuator returns the Evacuator that the sidecar uses.
func NewEvacuator() *provider.Evacuator {
	return Settings{}.clusters().Evacuator
}

func (o Settings) clusters() *driveroptions.ProviderClusters {
	clusters, err := o.options().ProviderClusters(prometheus.NewRegistry())
	if err != nil {
		panic(err) // The registry is new.
	}

	return clusters
}

// options describe the machine controller of the tests, as kubernetes/base runs it.
func (o Settings) options() *driveroptions.Options {
	options := driveroptions.New()
	options.Plugin.CreationTimeout = 20 * time.Minute
	options.Plugin.Allowed.Evacuation = len(o.Observers) > 0
	options.Plugin.Events = o.Events
	options.Plugin.Observers = o.Observers
	options.Machines.OrphanPeriod = 30 * time.Minute
	options.Machines.Workers = 50
	options.Machines.NeedAddress = o.Bootstrap
	options.Machines.UnschedulableGrace = o.Grace
	options.Machines.InitializeWait = o.Wait
	options.Machines.MaxDeleteWait = o.DeleteWait
	options.Machines.Clock = cmp.Or[clock.Clock](o.Clock, options.Machines.Clock)
	options.ImageClock = cmp.Or[clock.PassiveClock](o.ImageClock, options.Machines.Clock)
	options.Requests.RetryFor = cmp.Or(o.Retry, options.Requests.RetryFor)
	options.Requests.WrapTransport = clienttransport.Wrappers(o.Wrap, recorder.requests.wrap)

	return options
}

package integration

import (
	"cmp"
	"net/http"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/util/provider/driver"
	clienttransport "k8s.io/client-go/transport"
	"k8s.io/utils/clock"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1/validation"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/images"
	plugin "github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/kubevirt"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi/providercluster"
)

// settings are the driver settings that tests change.
type settings struct {
	clock clock.Clock
	// imageClock determines whether golden images are old enough to be replaced; nil: clock.
	imageClock clock.PassiveClock
	wrap       func(http.RoundTripper) http.RoundTripper
	grace      time.Duration
	// wait is how long InitializeMachine waits; zero: as long as in the sidecar.
	wait time.Duration
	// deleteWait bounds how long DeleteMachine waits; zero: as long as in the sidecar.
	deleteWait time.Duration
	// retry is how long a call retries; zero: as long as in the sidecar.
	retry time.Duration
	// events receives the driver's Events of machines; nil: discarded.
	events plugin.EventRecorder
	// bootstrap selects the mode without a target cluster.
	bootstrap bool
	// observers are notified of the classes of requests; with at least one,
	// drains trigger evacuation.
	observers []plugin.Observer
}

// newDriver returns the driver, wired as the sidecar and mcm-kubevirt serve wire it.
func newDriver(o settings) driver.Driver {
	return driverOn(newProvider(o), o)
}

// newProvider returns the PluginSPI implementation of the driver.
func newProvider(o settings) *providercluster.Provider {
	if o.clock == nil {
		o.clock = clock.RealClock{}
	}

	if o.imageClock == nil {
		o.imageClock = o.clock
	}

	return providercluster.New(providercluster.Options{
		Clients: providerapi.NewCache(providerapi.Options{
			QPS: 100, Burst: 200, RetryFor: cmp.Or(o.retry, 15*time.Second), WrapTransport: clienttransport.Wrappers(o.wrap, recorder.requests.wrap),
		}),
		Images:             images.NewManager(o.imageClock, 30*time.Minute),
		Clock:              o.clock,
		InitializeWait:     cmp.Or(o.wait, 15*time.Second),
		UnschedulableGrace: o.grace,
		OrphanGracePeriod:  10 * time.Minute,
		OrphanMemory:       40 * time.Minute,
		MaxDeleteWait:      cmp.Or(o.deleteWait, validation.MaxTerminationGracePeriod+providercluster.DeleteSlack),
		MaxWaiting:         25,
		NeedAddress:        o.bootstrap,
	})
}

// allowed are the validation options of ProviderSpecs, as by default.
var allowed = validation.Options{Template: validation.TemplateSafe}

func driverOn(provider *providercluster.Provider, o settings) driver.Driver {
	may := allowed
	may.Evacuation = len(o.observers) > 0

	return recorder.driver(plugin.New(provider, plugin.Options{
		CreationTimeout: 20 * time.Minute,
		CSIDriverName:   "csi.kubevirt.io",
		Allowed:         may,
		Events:          o.events,
		Observers:       o.observers,
	}))
}

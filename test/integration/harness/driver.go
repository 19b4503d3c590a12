package harness

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
	Events plugin.EventRecorder
	// Bootstrap selects the mode without a target cluster.
	Bootstrap bool
	// Observers are notified of the classes of requests; with at least one,
	// drains trigger evacuation.
	Observers []plugin.Observer
}

// NewDriver returns the driver, wired as the sidecar and mcm-kubevirt serve wire it.
func NewDriver(o Settings) driver.Driver {
	return DriverOn(NewProvider(o), o)
}

// NewProvider returns the PluginSPI implementation of the driver.
func NewProvider(o Settings) *providercluster.Provider {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}

	if o.ImageClock == nil {
		o.ImageClock = o.Clock
	}

	return providercluster.New(providercluster.Options{
		Clients: providerapi.NewCache(providerapi.Options{
			QPS: 100, Burst: 200, RetryFor: cmp.Or(o.Retry, 15*time.Second), WrapTransport: clienttransport.Wrappers(o.Wrap, recorder.requests.wrap),
		}),
		Images:             images.NewManager(o.ImageClock, 30*time.Minute),
		Clock:              o.Clock,
		InitializeWait:     cmp.Or(o.Wait, 15*time.Second),
		UnschedulableGrace: o.Grace,
		OrphanGracePeriod:  10 * time.Minute,
		OrphanMemory:       40 * time.Minute,
		MaxDeleteWait:      cmp.Or(o.DeleteWait, validation.MaxTerminationGracePeriod+providercluster.DeleteSlack),
		MaxWaiting:         25,
		NeedAddress:        o.Bootstrap,
	})
}

// allowed are the validation options of ProviderSpecs, as by default.
var allowed = validation.Options{Template: validation.TemplateSafe}

// DriverOn returns the driver on an implementation of the PluginSPI, with recorded calls.
func DriverOn(provider *providercluster.Provider, o Settings) driver.Driver {
	may := allowed
	may.Evacuation = len(o.Observers) > 0

	return recorder.driver(plugin.New(provider, plugin.Options{
		CreationTimeout: 20 * time.Minute,
		CSIDriverName:   "csi.kubevirt.io",
		Allowed:         may,
		Events:          o.Events,
		Observers:       o.Observers,
	}))
}

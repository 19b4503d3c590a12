// Package goldenimage keeps the DataVolumes that machines' root volumes are cloned from: it creates those that are needed, once,
// replaces those that have failed, and deletes those that nothing refers to. pkg/spi/providercluster calls it, with what
// pkg/spi/render makes. It must not know machine-controller-manager, nor what an image's name means.
//
// Processes need not agree: names are fixed, deletions have preconditions, and whoever finds an image missing creates it again.
package goldenimage

import (
	"context"
	"time"

	"golang.org/x/sync/singleflight"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/utils/clock"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiclient "kubevirt.io/client-go/containerizeddataimporter/typed/core/v1beta1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
)

// replaceAfter is how old an image must be that has failed before it is replaced: an import that fails at once must not be begun
// again and again.
const replaceAfter = 5 * time.Minute

// arrivalTimeout bounds the look at an image that a machine was cloned from. The call that has seen the machine waits for it.
const arrivalTimeout = 5 * time.Second

// Place is a namespace of a provider cluster.
type Place struct {
	// Clients lead there.
	Clients *providerapi.Clients
}

// Request sends a request, as providerapi.Clients.Request does.
func (p Place) Request(ctx context.Context, what string, send func(context.Context) error) error {
	return p.Clients.Request(ctx, what, send)
}

func (p Place) dataVolumes() cdiclient.DataVolumeInterface {
	return p.Clients.CDI.CdiV1beta1().DataVolumes(p.Clients.Namespace)
}

func (p Place) metadata(resource schema.GroupVersionResource) metadata.ResourceInterface {
	return p.Clients.Metadata.Resource(resource).Namespace(p.Clients.Namespace)
}

func (p Place) path(name string) string {
	return p.Clients.Namespace + "/" + name
}

var (
	dataVolumes     = cdiv1beta1.SchemeGroupVersion.WithResource("datavolumes")
	virtualMachines = kubevirtv1.GroupVersion.WithResource("virtualmachines")
)

// Keeper keeps the golden images of all places that it is asked about. It is safe for concurrent use.
type Keeper struct {
	clock   clock.PassiveClock
	images  *images
	pending singleflight.Group
	metrics *metrics
}

// NewKeeper returns a keeper that knows of no image yet.
func NewKeeper(c clock.PassiveClock) *Keeper {
	return &Keeper{clock: c, images: newImages(), metrics: newMetrics()}
}

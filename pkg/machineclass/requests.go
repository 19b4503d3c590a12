package machineclass

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1/validation"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/kubevirt"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// RequestsOptions are what Requests work with. All are required.
type RequestsOptions struct {
	// Images deletes golden images.
	Images spi.GoldenImages
	// Allowed is what a ProviderSpec may hold.
	Allowed validation.Options
	// OrphanPeriod is how often machine-controller-manager asks for the machines of every class (--machine-safety-orphan-vms-period).
	OrphanPeriod time.Duration
	Clock        clock.PassiveClock
}

// Requests decides over golden images by what requests carry alone, in a process that cannot watch MachineClasses. It never knows
// them all, so that it deletes nothing but the images of classes that it has known: those that requests say are being deleted, and
// those that no request has been about for two orphan periods in which there were others for the same shoot. What is still in use
// then goes after one of the requests that follow.
//
// It deletes nothing of a shoot before it has heard of it for one orphan period: until then it may not know of a class that refers
// to the same image.
type Requests struct {
	options RequestsOptions

	mu    sync.Mutex
	known book
}

var _ kubevirt.Classes = (*Requests)(nil)

// NewRequests returns Requests that know no class.
func NewRequests(options RequestsOptions) *Requests {
	return &Requests{options: options, known: newBook(options.OrphanPeriod)}
}

// Seen implements kubevirt.Classes. A class that cannot be decoded refers to no image: nothing can be made from it.
func (r *Requests) Seen(object *v1alpha1.MachineClass, _ *corev1.Secret) {
	cluster, own := kubevirt.ClusterOf(object)
	if !own || cluster == "" {
		return
	}

	image, err := kubevirt.DecodeImage(object, r.options.Allowed)
	if err != nil {
		image = nil
	}

	r.mu.Lock()
	defer r.mu.Unlock()

	name := requestClass{cluster: cluster, namespace: object.Namespace, name: object.Name}
	r.known.heard(name, image, object.DeletionTimestamp != nil, r.options.Clock.Now())
}

// Sweep implements kubevirt.Classes.
func (r *Requests) Sweep(ctx context.Context, object *v1alpha1.MachineClass, secret *corev1.Secret) {
	log := klog.FromContext(ctx).WithValues("machineClass", klog.KObj(object))

	cluster, own := kubevirt.ClusterOf(object)
	if !own || cluster == "" {
		return
	}

	if _, err := kubevirt.DecodeImage(object, r.options.Allowed); err != nil && object.DeletionTimestamp != nil {
		log.Info("Cannot tell the golden image of a MachineClass that is being deleted: look for it in the provider cluster", "err", err)
	}

	live, dead := r.images(cluster)
	if len(dead) == 0 {
		return
	}

	ctx, cancel := context.WithTimeout(klog.NewContext(ctx, log), sweepTime)
	defer cancel()

	gone := slices.Collect(maps.Values(dead))
	result, err := r.options.Images.SweepImages(ctx, &spi.SweepImagesInput{
		Kubeconfig: kubeconfigIn(secret), Cluster: cluster, Live: live, Dead: gone,
		// Requests do not tell how a class went. When it was deleted, its last machine is deleted before it is gone.
		Vanished: gone,
	})
	if err != nil {
		log.Info("Cannot sweep golden images now; one of the next requests tries again", "cluster", cluster, "err", err)

		return
	}

	logSwept(ctx, result)

	if len(result.InUse) == 0 {
		r.forget(dead)
	}
}

// images returns the images of the living classes of a cluster, and those that may go; none as long as too little is known.
func (r *Requests) images(cluster string) (live []spi.Image, dead map[requestClass]spi.Image) {
	r.mu.Lock()
	defer r.mu.Unlock()

	return r.known.images(cluster)
}

// forget forgets classes whose images are gone, unless they live again.
func (r *Requests) forget(dead map[requestClass]spi.Image) {
	r.mu.Lock()
	defer r.mu.Unlock()

	r.known.forget(dead)
}

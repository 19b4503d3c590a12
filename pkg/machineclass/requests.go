package machineclass

import (
	"context"
	"sync"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1/validation"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/kubevirt"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// maxClasses is how many living classes are remembered.
const maxClasses = 2000

// Requests decides over golden images by what requests carry alone, in a process that cannot watch MachineClasses. It never knows
// them all, so that it deletes nothing but the images of classes that it is told are being deleted. What is still in use then goes
// with one of the requests that follow: machine-controller-manager asks for the machines of such a class after each deletion.
type Requests struct {
	images  spi.GoldenImages
	allowed validation.Options

	mu     sync.Mutex
	living map[requestClass]spi.Image
}

// requestClass names a class: control clusters may give the same name to classes of different shoots.
type requestClass struct {
	cluster, namespace, name string
}

var _ kubevirt.Classes = (*Requests)(nil)

// NewRequests returns Requests that know no class.
func NewRequests(images spi.GoldenImages, allowed validation.Options) *Requests {
	return &Requests{images: images, allowed: allowed, living: map[requestClass]spi.Image{}}
}

// Seen implements kubevirt.Classes. A class that cannot be decoded refers to no image: nothing can be made from it.
func (r *Requests) Seen(object *v1alpha1.MachineClass, _ *corev1.Secret) {
	cluster, own := kubevirt.ClusterOf(object)
	if !own || cluster == "" {
		return
	}

	image, err := kubevirt.DecodeImage(object, r.allowed)
	name := requestClass{cluster: cluster, namespace: object.Namespace, name: object.Name}

	r.mu.Lock()
	defer r.mu.Unlock()

	delete(r.living, name)

	if err == nil && object.DeletionTimestamp == nil {
		r.makeRoom()
		r.living[name] = *image
	}
}

// makeRoom makes room for one more. Classes that went while nobody asked for their machines are never heard of again. Which one is
// forgotten does not matter much: its image is made again for the next Machine, should it be deleted with that of another class.
func (r *Requests) makeRoom() {
	for name := range r.living {
		if len(r.living) < maxClasses {
			return
		}

		delete(r.living, name)
	}
}

// Sweep implements kubevirt.Classes.
func (r *Requests) Sweep(ctx context.Context, object *v1alpha1.MachineClass, secret *corev1.Secret) {
	log := klog.FromContext(ctx).WithValues("machineClass", klog.KObj(object))

	cluster, own := kubevirt.ClusterOf(object)
	if !own || cluster == "" {
		return
	}

	dead, err := kubevirt.DecodeImage(object, r.allowed)
	if err != nil {
		log.Info("Cannot tell the golden image of a MachineClass that is being deleted: look for it in the provider cluster", "err", err)

		return
	}

	ctx, cancel := context.WithTimeout(klog.NewContext(ctx, log), sweepTime)
	defer cancel()

	result, err := r.images.SweepImages(ctx, &spi.SweepImagesInput{
		Kubeconfig: kubeconfigIn(secret), Cluster: cluster, Live: r.live(cluster), Dead: []spi.Image{*dead},
	})
	if err != nil {
		log.Info("Cannot sweep golden images now; the next request tries again", "cluster", cluster, "err", err)

		return
	}

	logSwept(ctx, result)
}

// live returns the images of the living classes of a cluster.
func (r *Requests) live(cluster string) []spi.Image {
	r.mu.Lock()
	defer r.mu.Unlock()

	var images []spi.Image

	for name, image := range r.living {
		if name.cluster == cluster {
			images = append(images, image)
		}
	}

	return images
}

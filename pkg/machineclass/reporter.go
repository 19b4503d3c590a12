package machineclass

import (
	"context"
	"sync"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/driver"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/machinecodes/codes"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/machinecodes/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	apiv1alpha1 "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/kubevirt"
)

// repetitions are how long after a report that has arrived the next one is sent: when the driver hears of it, the image may still be
// in use, or the driver may not have been up for long enough to delete any.
var repetitions = []time.Duration{15 * time.Second, time.Minute, 5 * time.Minute}

// maxRetries are how often a report is tried again that does not arrive: for about a day. The provider cluster may be gone for good.
const maxRetries = 24 * 120

// ReporterOptions are what a Reporter works with. All are required.
type ReporterOptions struct {
	ControlCluster

	// Driver is the one elsewhere.
	Driver driver.Driver
}

// Reporter tells a driver that cannot watch MachineClasses, but runs Requests, which classes are gone: machine-controller-manager
// sends no request about a class any more once its last machine is gone. It does so in terms of the driver's interface: it lists the
// machines of the class as it was seen last, with a deletionTimestamp. Each report is repeated a few times.
//
// It begins to speak when the Tracker would begin to act.
type Reporter struct {
	*watcher[string]

	driver driver.Driver

	mu sync.Mutex
	// there and gone are the classes by their names. One that is created anew is not gone.
	there, gone map[string]*lastSeen
}

// lastSeen is the last state of a class of this provider.
type lastSeen struct {
	object *v1alpha1.MachineClass
	// kubeconfig is that of its Secrets; empty if they never had one: the driver may have it.
	kubeconfig []byte
	// reports is how many have arrived.
	reports int
}

var (
	_ kubevirt.Observer = (*Reporter)(nil)
	_ owner[string]     = (*Reporter)(nil)
)

// NewReporter returns a Reporter that does nothing before Run.
func NewReporter(options ReporterOptions) *Reporter {
	r := &Reporter{driver: options.Driver, there: map[string]*lastSeen{}, gone: map[string]*lastSeen{}}
	r.watcher = newWatcher(options.ControlCluster, r, "machineclass-reports")

	return r
}

// set implements owner. Gardener deletes the Secret too, and in no order.
func (r *Reporter) set(_ context.Context, object *v1alpha1.MachineClass, kubeconfig []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()

	if old := r.there[object.Name]; old != nil && old.object.UID == object.UID && len(kubeconfig) == 0 {
		kubeconfig = old.kubeconfig
	}

	r.there[object.Name] = &lastSeen{object: object, kubeconfig: kubeconfig}
	delete(r.gone, object.Name)
}

// remove implements owner.
func (r *Reporter) remove(ctx context.Context, name string) {
	r.mu.Lock()
	defer r.mu.Unlock()

	class := r.there[name]
	if class == nil {
		return
	}

	klog.FromContext(ctx).V(2).Info("MachineClass is gone", "machineClass", name)
	delete(r.there, name)
	makeRoom(r.gone) // A process that never leads never reports.
	r.gone[name] = class
	r.keys.Add(name)

	if len(r.there) == 0 {
		r.lead()
	}
}

// kubeconfigOf implements owner.
func (r *Reporter) kubeconfigOf(name string) ([]byte, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()

	if class := r.there[name]; class != nil {
		return class.kubeconfig, true
	}

	return nil, false
}

// needsKubeconfig implements owner.
func (r *Reporter) needsKubeconfig() bool { return false }

// unfinished implements owner.
func (r *Reporter) unfinished() []string {
	r.mu.Lock()
	defer r.mu.Unlock()

	names := make([]string, 0, len(r.gone))
	for name := range r.gone {
		names = append(names, name)
	}

	return names
}

// tend implements owner. It reports a class that is gone.
func (r *Reporter) tend(ctx context.Context, name string) {
	class := r.lastSeen(name)
	if class == nil {
		r.keys.Forget(name)

		return
	}

	log := klog.FromContext(ctx).WithValues("machineClass", klog.KObj(class.object))

	err := r.report(ctx, class)
	if err != nil && !final(err) && r.keys.NumRequeues(name) < maxRetries {
		log.Info("Cannot tell the driver that a MachineClass is gone; trying again", "err", err)
		r.keys.AddRateLimited(name)

		return
	}

	r.keys.Forget(name)

	if err != nil {
		log.Info("Golden images of a MachineClass that is gone may be left behind", "err", err)
		r.forget(name, class)

		return
	}

	log.V(2).Info("The driver was told that a MachineClass is gone")
	r.repeat(name, class)
}

func (r *Reporter) lastSeen(name string) *lastSeen {
	r.mu.Lock()
	defer r.mu.Unlock()

	return r.gone[name]
}

// report lists the machines of a class that is gone. Nobody needs the list.
func (r *Reporter) report(ctx context.Context, class *lastSeen) error {
	ctx, cancel := context.WithTimeout(ctx, workTime)
	defer cancel()

	object := class.object.DeepCopy()
	if object.DeletionTimestamp == nil { // No finalizer kept it.
		object.DeletionTimestamp = ptr.To(metav1.Now())
	}

	secret := &corev1.Secret{}
	if len(class.kubeconfig) > 0 {
		secret.Data = map[string][]byte{apiv1alpha1.SecretKeyKubeconfig: class.kubeconfig}
	}

	_, err := r.driver.ListMachines(ctx, &driver.ListMachinesRequest{MachineClass: object, Secret: secret})

	return err
}

// repeat plans the next report of a class, or forgets the class after the last one.
func (r *Reporter) repeat(name string, class *lastSeen) {
	if class.reports == len(repetitions) {
		r.forget(name, class)

		return
	}

	r.keys.AddAfter(name, repetitions[class.reports])
	class.reports++ // Nobody else works on the same key.
}

// forget forgets a class, unless it has come and gone again meanwhile.
func (r *Reporter) forget(name string, class *lastSeen) {
	r.mu.Lock()
	defer r.mu.Unlock()

	if r.gone[name] == class {
		delete(r.gone, name)
	}
}

// final says whether every report of the class would end like this one: its kubeconfig cannot be used, or its credentials have ended. A
// driver that only lacks a kubeconfig has taken note all the same.
func final(err error) bool {
	s, ok := status.FromError(err)

	return ok && (s.Code() == codes.InvalidArgument || s.Code() == codes.Unauthenticated)
}

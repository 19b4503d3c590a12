package machineclass

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	informers "github.com/gardener/machine-controller-manager/pkg/client/informers/externalversions"
	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	apiv1alpha1 "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/kubevirt"
)

// lookAgain is after how long every class is looked at again, with its Secrets: they are not watched.
const lookAgain = 10 * time.Minute

var errNoKubeconfig = errors.New("no kubeconfig")

// watch begins to watch the classes, and returns when each that is there has been looked at; false if the process ends before. It
// only reads, so that it need not wait for this process to lead: Gardener may delete the classes of a hibernated shoot, and with
// them all trace of their images, in the seconds before the sidecar that it has woken up is elected.
func (w *watcher[K]) watch(ctx context.Context) bool {
	factory := informers.NewSharedInformerFactoryWithOptions(w.control.Machines, lookAgain, informers.WithNamespace(w.control.Namespace))
	classes := factory.Machine().V1alpha1().MachineClasses()
	w.lister = classes.Lister()

	if _, err := classes.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    w.changed,
		UpdateFunc: func(_, class any) { w.changed(class) },
		DeleteFunc: w.changed,
	}); err != nil {
		klog.FromContext(ctx).Error(err, "Cannot watch MachineClasses: golden images are made with the first Machine, and left behind")

		return false
	}

	factory.Start(ctx.Done())

	if !cache.WaitForNamedCacheSyncWithContext(ctx, classes.Informer().HasSynced) {
		return false
	}

	return w.lookAtAll(ctx)
}

// changed has a class looked at that is not any more what it was.
func (w *watcher[K]) changed(class any) {
	if name, err := cache.DeletionHandlingObjectToName(class); err == nil {
		w.names.Add(name.Name)
	}
}

func (w *watcher[K]) lookAtAll(ctx context.Context) bool {
	classes, err := w.lister.MachineClasses(w.control.Namespace).List(labels.Everything())
	if err != nil {
		klog.FromContext(ctx).Error(err, "Cannot list MachineClasses: golden images are made with the first Machine, and left behind")

		return false
	}

	for _, class := range classes {
		w.look(ctx, class.Name)
	}

	klog.FromContext(ctx).V(2).Info("Knows all MachineClasses", "namespace", w.control.Namespace, "classes", len(classes))

	return ctx.Err() == nil
}

// look brings what is known of a class up to date.
func (w *watcher[K]) look(ctx context.Context, name string) {
	class, err := w.lister.MachineClasses(w.control.Namespace).Get(name)
	if err != nil {
		w.names.Forget(name)
		w.owner.remove(ctx, name)

		return
	}

	if _, own := kubevirt.ClusterOf(class); !own {
		w.owner.remove(ctx, name)

		return
	}

	kubeconfig, err := w.readKubeconfig(ctx, class)
	w.owner.set(ctx, class, kubeconfig)

	if errors.Is(err, errNoKubeconfig) && !w.owner.needsKubeconfig() {
		err = nil
	}

	if err != nil && class.DeletionTimestamp == nil {
		klog.FromContext(ctx).Info("Cannot read the kubeconfig of a MachineClass; trying again", "machineClass", klog.KObj(class), "err", err)
		w.names.AddRateLimited(name)

		return
	}

	w.names.Forget(name)
}

// readKubeconfig reads the kubeconfig from a class's Secrets as machine-controller-manager does (getSecretData in
// pkg/util/provider/machinecontroller/machine_util.go): credentialsSecretRef wins, and a Secret that is not there is no fault if the
// other has the key. It keeps nothing else of them. Without a kubeconfig in any of them the error wraps errNoKubeconfig.
func (w *watcher[K]) readKubeconfig(ctx context.Context, class *v1alpha1.MachineClass) ([]byte, error) {
	for _, ref := range []*corev1.SecretReference{class.CredentialsSecretRef, class.SecretRef} {
		if ref == nil || ref.Namespace != w.control.Namespace {
			continue
		}

		secret, err := w.readSecret(ctx, ref.Name)
		if apierrors.IsNotFound(err) {
			continue
		}

		if err != nil {
			return nil, fmt.Errorf("read Secret %s: %w", ref.Name, err)
		}

		if kubeconfig := secret.Data[apiv1alpha1.SecretKeyKubeconfig]; len(kubeconfig) > 0 {
			return kubeconfig, nil
		}
	}

	return nil, fmt.Errorf("%w: none of the Secrets that it names in namespace %s has the key %s",
		errNoKubeconfig, w.control.Namespace, apiv1alpha1.SecretKeyKubeconfig)
}

// readSecret keeps what it reads out of client-go's logs.
func (w *watcher[K]) readSecret(ctx context.Context, name string) (*corev1.Secret, error) {
	ctx, cancel := context.WithTimeout(klog.NewContext(ctx, logr.Discard()), readTime)
	defer cancel()

	return w.control.Secrets.Secrets(w.control.Namespace).Get(ctx, name, metav1.GetOptions{})
}

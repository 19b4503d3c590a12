package machineclass

import (
	"context"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	apiv1alpha1 "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/kubevirt"
)

// sweepTime bounds how long a call waits for superfluous images to be deleted.
const sweepTime = 20 * time.Second

// Sweep implements kubevirt.Classes. It returns when a sweep has ended that began after the call. While the class lives there is
// nothing to do: the watch shows when others go.
func (t *Tracker) Sweep(ctx context.Context, object *v1alpha1.MachineClass, secret *corev1.Secret) {
	if object.DeletionTimestamp == nil {
		return
	}

	kubeconfig := kubeconfigIn(secret)

	cluster, own := kubevirt.ClusterOf(object)
	if !own || cluster == "" || len(kubeconfig) == 0 {
		return
	}

	ctx, cancel := context.WithTimeout(ctx, sweepTime)
	defer cancel()

	select {
	case <-t.await(object, keyOf(cluster, kubeconfig), kubeconfig):
	case <-ctx.Done():
		klog.FromContext(ctx).Info("Golden images are still being looked after", "machineClass", klog.KObj(object), "cluster", cluster, "err", ctx.Err())
	}
}

// await has a store looked after, for a class that is being deleted, and returns what is closed when that has ended.
func (t *Tracker) await(object *v1alpha1.MachineClass, key storeKey, kubeconfig []byte) <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()

	if c := t.classes[object.Name]; c != nil && c.uid == object.UID {
		c.deleted = true // For good: remember keeps it.
	}

	if t.stores[key] == nil {
		t.stores[key] = &store{kubeconfig: kubeconfig}
	}

	done := make(chan struct{})
	t.waiting[key] = append(t.waiting[key], done)
	t.enqueue(key.cluster)

	return done
}

func kubeconfigIn(secret *corev1.Secret) []byte {
	if secret == nil {
		return nil
	}

	return secret.Data[apiv1alpha1.SecretKeyKubeconfig]
}

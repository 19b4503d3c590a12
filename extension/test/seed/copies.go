// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package seed

import (
	"context"
	"fmt"

	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Copies copies all objects of the shoot in the seed that the extension reads, with their statuses, to
// the namespaces of more shoots, with the numbers from first to before end. Nothing reconciles the copies. Their
// credentials differ, but belong to the same account.
func (s *Botanist) Copies(ctx context.Context, first, end int) error {
	cluster := &extensionsv1alpha1.Cluster{}
	if err := s.seed.Client.Get(ctx, client.ObjectKey{Name: s.Namespace}, cluster); err != nil {
		return err
	}

	objects, err := s.objects(ctx)
	if err != nil {
		return err
	}

	const atATime = 4

	copying, ctx := errgroup.WithContext(ctx)
	copying.SetLimit(atATime)

	for i := first; i < end; i++ {
		copying.Go(func() error { return s.seed.copyShoot(ctx, fmt.Sprintf("%s-%d", s.Namespace, i), cluster, objects) })
	}

	return copying.Wait()
}

// copyShoot copies a Cluster and the objects of its shoot to another namespace.
func (s *Seed) copyShoot(ctx context.Context, namespace string, cluster *extensionsv1alpha1.Cluster, objects []client.Object) error {
	if err := s.namespace(ctx, namespace, nil); err != nil {
		return err
	}

	if err := s.copyTo(ctx, "", namespace, cluster); err != nil {
		return err
	}

	for _, object := range objects {
		if err := s.copyTo(ctx, namespace, object.GetName(), object); err != nil {
			return err
		}
	}

	return nil
}

// objects returns the objects in the namespace of the shoot that the extension reads.
func (s *Botanist) objects(ctx context.Context) ([]client.Object, error) {
	var objects []client.Object

	for _, list := range []client.ObjectList{
		&corev1.SecretList{}, &appsv1.DeploymentList{}, &extensionsv1alpha1.InfrastructureList{}, &extensionsv1alpha1.ControlPlaneList{}, &extensionsv1alpha1.WorkerList{},
		&machinev1alpha1.MachineClassList{}, &machinev1alpha1.MachineDeploymentList{}, &machinev1alpha1.MachineSetList{}, &machinev1alpha1.MachineList{},
	} {
		if err := s.seed.Client.List(ctx, list, client.InNamespace(s.Namespace)); err != nil {
			return nil, err
		}

		if err := meta.EachListItem(list, func(item runtime.Object) error {
			object, ok := item.DeepCopyObject().(client.Object)
			if !ok {
				return fmt.Errorf("%T is not an object", item)
			}

			objects = append(objects, object)

			return nil
		}); err != nil {
			return nil, err
		}
	}

	return objects, nil
}

// copyTo creates a copy of an object, with its status.
func (s *Seed) copyTo(ctx context.Context, namespace, name string, object client.Object) error {
	created, ok := object.DeepCopyObject().(client.Object)
	if !ok {
		return fmt.Errorf("%T is not an object", object)
	}

	created.SetNamespace(namespace)
	created.SetName(name)
	created.SetResourceVersion("")
	created.SetUID("")
	created.SetOwnerReferences(nil)

	useOwnCredentials(created, namespace)

	withStatus, _ := created.DeepCopyObject().(client.Object)

	if err := s.Client.Create(ctx, created); err != nil {
		return fmt.Errorf("copy %T %s: %w", object, name, err)
	}

	if _, isSecret := object.(*corev1.Secret); isSecret {
		return nil
	}

	withStatus.SetResourceVersion(created.GetResourceVersion())

	err := s.Client.Status().Update(ctx, withStatus)
	if apierrors.IsNotFound(err) {
		return nil // The kind has no status.
	}

	return err
}

// useOwnCredentials makes a copy refer to the credentials of its own namespace, and credentials differ from those of other copies.
func useOwnCredentials(created client.Object, namespace string) {
	switch created := created.(type) {
	case *corev1.Secret:
		if created.Name == v1beta1constants.SecretNameCloudProvider {
			created.Data["kubeconfig"] = fmt.Appendf(created.Data["kubeconfig"], "\n# %s\n", namespace)
		}
	case *extensionsv1alpha1.Infrastructure:
		created.Spec.SecretRef.Namespace = namespace
	case *extensionsv1alpha1.ControlPlane:
		created.Spec.SecretRef.Namespace = namespace
	case *extensionsv1alpha1.Worker:
		created.Spec.SecretRef.Namespace = namespace
	}
}

// WatchInfrastructures watches all Infrastructures, from the resource version of a list on. It resumes a watch that the API
// server ends, as a busy one does.
func (s *Seed) WatchInfrastructures(ctx context.Context, resourceVersion string) (watch.Interface, error) {
	watching, err := client.NewWithWatch(s.seedConfig, client.Options{Scheme: kubernetes.SeedScheme})
	if err != nil {
		return nil, fmt.Errorf("watch Infrastructures: %w", err)
	}

	stream, err := watchtools.NewRetryWatcherWithContext(ctx, resourceVersion, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return watching.Watch(ctx, &extensionsv1alpha1.InfrastructureList{}, &client.ListOptions{Raw: &options})
		},
	})

	return stream, wrap(err, "watch Infrastructures")
}

// RestartExtension stops the extension, calls a function, and starts the extension again.
func (s *Seed) RestartExtension(ctx context.Context, stopped func() error) error {
	if err := s.Extension.Stop(ctx); err != nil {
		return err
	}

	// Otherwise, the new process would wait until the Lease expires.
	if err := s.Client.Delete(ctx, leaderElection()); err != nil {
		return fmt.Errorf("delete the Lease of the leader: %w", err)
	}

	if err := stopped(); err != nil {
		return err
	}

	return s.startExtension(ctx)
}

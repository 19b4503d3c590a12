// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package seed

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	"github.com/gardener/gardener/pkg/component/extensions/controlplane"
	"github.com/gardener/gardener/pkg/component/extensions/worker"
	"github.com/gardener/gardener/pkg/utils/gardener/shootstate"
	"github.com/gardener/gardener/pkg/utils/managedresources"
	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// Delete deletes the shoot in gardenlet's order: the Worker, the ControlPlane, the Infrastructure,
// machine-controller-manager.
func (s *Botanist) Delete(ctx context.Context) error {
	return s.perform(ctx, append(s.deletion(),
		task{"Requiring that no object is left in the seed", s.requireCleanSeed},
		task{"Deleting shoot namespace in Seed", s.removeNamespace},
	)...)
}

// requireCleanSeed returns an error if the extension or machine-controller-manager left something in
// the namespace in the seed, whose deletion would remove it.
func (s *Botanist) requireCleanSeed(ctx context.Context) error {
	objects, err := s.objects(ctx)
	if err != nil {
		return err
	}

	for _, object := range objects {
		_, isSecret := object.(*corev1.Secret)
		ofClass := object.GetLabels()[v1beta1constants.GardenerPurpose] == v1beta1constants.GardenPurposeMachineClass
		held := slices.ContainsFunc(object.GetFinalizers(), func(f string) bool { return strings.HasPrefix(f, machinev1alpha1.GroupName+"/") })

		if !isSecret || ofClass || held {
			return fmt.Errorf("left in the seed: %T %s with finalizers %v", object, object.GetName(), object.GetFinalizers())
		}
	}

	return nil
}

// deletion returns the tasks that delete the resources in the seed.
func (s *Botanist) deletion() []task {
	var workers worker.Interface

	return []task{
		{"Syncing shoot cluster information to seed", s.syncDeletion},
		{"Deploying machine-controller-manager", func(ctx context.Context) error { return s.deployMachineControllerManager(ctx, false) }},
		{"Destroying shoot workers", func(ctx context.Context) (err error) {
			if workers, err = s.Worker(ctx); err != nil {
				return err
			}

			return workers.Destroy(ctx)
		}},
		{"Waiting until shoot worker nodes have been terminated", func(ctx context.Context) error { return workers.WaitCleanup(ctx) }},
		{"Waiting until shoot control plane has been destroyed", func(ctx context.Context) error { return s.forControlPlane(ctx, destroy, awaitCleanup) }},
		{"Destroying shoot infrastructure", func(ctx context.Context) error { return s.Infrastructure().Destroy(ctx) }},
		{"Waiting until shoot infrastructure has been deleted", func(ctx context.Context) error { return s.Infrastructure().WaitCleanup(ctx) }},
		{"Deleting machine-controller-manager", s.removeMachineControllerManager},
	}
}

func (s *Botanist) syncDeletion(ctx context.Context) error {
	if s.Object.DeletionTimestamp == nil { // that of the garden stays: the error of a long deletion has other codes
		now := metav1.Now()
		s.Object.DeletionTimestamp = &now
	}

	return s.Sync(ctx)
}

// ForceDelete deletes the shoot as if its user had given up what cannot be reached. gardenlet then
// removes what remains in the seed, whatever its finalizers are.
func (s *Botanist) ForceDelete(ctx context.Context) error {
	metav1.SetMetaDataAnnotation(&s.Object.ObjectMeta, v1beta1constants.AnnotationConfirmationForceDeletion, "true")

	return s.perform(ctx, append(s.deletion(),
		task{"Deleting what is left in the seed", s.shallowDelete},
		task{"Deleting shoot namespace in Seed", s.removeNamespace},
	)...)
}

// removeMachineControllerManager also deletes the ManagedResource with its permissions in the shoot,
// but keeps the permissions: all shoots of a seed have one cluster for their Nodes.
func (s *Botanist) removeMachineControllerManager(ctx context.Context) error {
	resources := &resourcesv1alpha1.ManagedResourceList{}
	if err := s.seed.Client.List(ctx, resources, client.InNamespace(s.Namespace)); err != nil {
		return err
	}

	for i := range resources.Items {
		if err := managedresources.SetKeepObjects(ctx, s.seed.Client, s.Namespace, resources.Items[i].Name, true); err != nil {
			return err
		}
	}

	if err := s.machineControllerManager(0).Destroy(ctx); err != nil {
		return err
	}

	return s.StopPods()
}

// removeNamespace deletes the Cluster and the namespace in the seed.
func (s *Botanist) removeNamespace(ctx context.Context) error {
	const atMost = 10 * time.Minute

	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.Namespace}}

	for _, object := range []client.Object{&extensionsv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: s.Namespace}}, namespace} {
		if err := s.seed.Client.Delete(ctx, object); client.IgnoreNotFound(err) != nil {
			return err
		}
	}

	return wait.PollUntilContextTimeout(ctx, waitInterval, atMost, true, func(ctx context.Context) (bool, error) {
		err := s.seed.Client.Get(ctx, client.ObjectKeyFromObject(namespace), namespace)

		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
}

// Migrate moves the shoot away from the seed, and returns its state. The seed is empty then.
func (s *Botanist) Migrate(ctx context.Context) (*gardencorev1beta1.ShootState, error) {
	w, err := s.Worker(ctx)
	if err != nil {
		return nil, err
	}

	if err := s.removeMachineControllerManager(ctx); err != nil {
		return nil, err
	}

	state, err := s.state(ctx)
	if err != nil {
		return nil, err
	}

	infra := s.Infrastructure()

	for _, step := range []func(context.Context) error{
		infra.Migrate, w.Migrate, infra.WaitMigrate, w.WaitMigrate,
		func(ctx context.Context) error {
			return s.forControlPlane(ctx, migrate, awaitMigrated, destroy, awaitCleanup)
		},
		infra.Destroy, w.Destroy, infra.WaitCleanup, w.WaitCleanup, s.shallowDelete, s.removeNamespace,
	} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}

	return state, nil
}

// state returns the ShootState that gardenlet writes into the garden cluster.
func (s *Botanist) state(ctx context.Context) (*gardencorev1beta1.ShootState, error) {
	garden := fake.NewClientBuilder().WithScheme(kubernetes.GardenScheme).Build()
	if err := shootstate.Deploy(ctx, clock.RealClock{}, garden, s.seed.Client, s.Object, s.Namespace, true); err != nil {
		return nil, err
	}

	state := &gardencorev1beta1.ShootState{}

	return state, garden.Get(ctx, client.ObjectKeyFromObject(s.Object), state)
}

// shallowDelete removes the machine resources from the seed, without the machines.
func (s *Botanist) shallowDelete(ctx context.Context) error {
	for _, list := range []client.ObjectList{
		&machinev1alpha1.MachineList{}, &machinev1alpha1.MachineSetList{}, &machinev1alpha1.MachineDeploymentList{}, &machinev1alpha1.MachineClassList{}, &corev1.SecretList{},
	} {
		if err := s.seed.Client.List(ctx, list, client.InNamespace(s.Namespace)); err != nil {
			return err
		}

		if err := meta.EachListItem(list, func(item runtime.Object) error {
			object, ok := item.(client.Object)
			if !ok {
				return fmt.Errorf("%T is not an object", item)
			}

			before, _ := object.DeepCopyObject().(client.Object)
			object.SetFinalizers(nil)

			return errors.Join(
				client.IgnoreNotFound(s.seed.Client.Patch(ctx, object, client.MergeFrom(before))),
				client.IgnoreNotFound(s.seed.Client.Delete(ctx, object)),
			)
		}); err != nil {
			return err
		}
	}

	return nil
}

// Restore takes the shoot over from its state.
func (s *Botanist) Restore(ctx context.Context, state *gardencorev1beta1.ShootState) error {
	s.Object.Status.LastOperation = &gardencorev1beta1.LastOperation{
		Type:           gardencorev1beta1.LastOperationTypeRestore,
		State:          gardencorev1beta1.LastOperationStateProcessing,
		LastUpdateTime: metav1.Now(),
	}

	if err := s.prepare(ctx); err != nil {
		return err
	}

	infra := s.Infrastructure()
	if err := infra.Restore(ctx, state); err != nil {
		return err
	}

	if err := s.awaitInfrastructure(ctx, infra); err != nil {
		return err
	}

	if err := s.forControlPlane(ctx, func(c controlplane.Interface) func(context.Context) error {
		return func(ctx context.Context) error { return c.Restore(ctx, state) }
	}, s.awaitControlPlane); err != nil {
		return err
	}

	if err := s.deployMachineControllerManager(ctx, true); err != nil {
		return err
	}

	w, err := s.Worker(ctx)
	if err != nil {
		return err
	}

	if err := w.Restore(ctx, state); err != nil {
		return err
	}

	if err := s.await(ctx, w.Wait); err != nil {
		return err
	}

	return s.finish(ctx)
}

// labelShoot is the label of the extension's own objects in the provider cluster.
const labelShoot = "kubevirt.provider.extensions.gardener.cloud/cluster"

// providerKinds are the kinds of objects that a shoot can leave in the provider cluster.
var providerKinds = []schema.GroupVersionKind{
	{Group: "kubevirt.io", Version: "v1", Kind: "VirtualMachine"},
	{Group: "kubevirt.io", Version: "v1", Kind: "VirtualMachineInstance"},
	{Group: "cdi.kubevirt.io", Version: "v1beta1", Kind: "DataVolume"},
	{Group: "k8s.cni.cncf.io", Version: "v1", Kind: "NetworkAttachmentDefinition"},
	{Group: "snapshot.storage.k8s.io", Version: "v1", Kind: "VolumeSnapshot"},
	{Version: "v1", Kind: "PersistentVolumeClaim"},
	{Version: "v1", Kind: "Pod"},
	{Version: "v1", Kind: "Secret"},
}

// Leftovers returns the objects of the shoot in the provider cluster, and its Nodes.
func (s *Botanist) Leftovers(ctx context.Context) ([]string, error) {
	left, err := s.leftNodes(ctx)
	if err != nil {
		return nil, err
	}

	for _, kind := range providerKinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)

		if err := s.seed.Provider.List(ctx, list, client.InNamespace(s.ProviderNamespace)); err != nil {
			return nil, fmt.Errorf("list %s: %w", kind.Kind, err)
		}

		for i := range list.Items {
			if name := list.Items[i].GetName(); !strings.HasPrefix(name, boundSecret) {
				left = append(left, kind.Kind+" "+name)
			}
		}
	}

	labelled, err := s.leftLabelled(ctx)

	return append(left, labelled...), err
}

// leftLabelled returns the objects of the shoot of kinds that its namespace also has without a shoot.
func (s *Botanist) leftLabelled(ctx context.Context) (left []string, _ error) {
	for _, list := range []client.ObjectList{
		&networkingv1.NetworkPolicyList{}, &corev1.ServiceList{}, &corev1.ServiceAccountList{}, &rbacv1.RoleList{}, &rbacv1.RoleBindingList{},
	} {
		if err := s.seed.Provider.List(ctx, list, client.InNamespace(s.ProviderNamespace), client.HasLabels{labelShoot}); err != nil {
			return nil, fmt.Errorf("list objects with the label of the shoot: %w", err)
		}

		if err := meta.EachListItem(list, func(item runtime.Object) error {
			object, err := meta.Accessor(item)
			if err == nil {
				left = append(left, fmt.Sprintf("%T %s", item, object.GetName()))
			}

			return err
		}); err != nil {
			return nil, err
		}
	}

	return left, nil
}

func (s *Botanist) leftNodes(ctx context.Context) (left []string, _ error) {
	nodes := &corev1.NodeList{}
	if err := s.seed.Target.List(ctx, nodes); err != nil {
		return nil, fmt.Errorf("list Nodes: %w", err)
	}

	for i := range nodes.Items {
		if strings.HasPrefix(nodes.Items[i].Name, s.Namespace+"-") {
			left = append(left, "Node "+nodes.Items[i].Name)
		}
	}

	return left, nil
}

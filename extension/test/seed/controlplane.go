// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package seed

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"github.com/gardener/gardener/pkg/component/extensions/controlplane"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ControlPlane returns gardenlet's deployer of the ControlPlane.
func (s *Botanist) ControlPlane(ctx context.Context) (controlplane.Interface, error) {
	infra := &extensionsv1alpha1.Infrastructure{}
	if err := s.seed.Client.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: s.Object.Name}, infra); client.IgnoreNotFound(err) != nil {
		return nil, err
	}

	return controlplane.New(log, s.seed.Client, &controlplane.Values{
		Namespace:                    s.Namespace,
		Name:                         s.Object.Name,
		Type:                         providerType,
		Region:                       s.Object.Spec.Region,
		ProviderConfig:               s.Object.Spec.Provider.ControlPlaneConfig,
		InfrastructureProviderStatus: infra.Status.ProviderStatus,
	}, waitInterval, controlplane.DefaultSevereThreshold, controlplane.DefaultTimeout), nil
}

// forControlPlane calls a step of gardenlet's deployer, if the shoot has a ControlPlane.
func (s *Botanist) forControlPlane(ctx context.Context, steps ...func(controlplane.Interface) func(context.Context) error) error {
	if !s.HasControlPlane {
		return nil
	}

	c, err := s.ControlPlane(ctx)
	if err != nil {
		return err
	}

	for _, step := range steps {
		if err := step(c)(ctx); err != nil {
			return err
		}
	}

	return nil
}

func deploy(c controlplane.Interface) func(context.Context) error       { return c.Deploy }
func destroy(c controlplane.Interface) func(context.Context) error      { return c.Destroy }
func awaitCleanup(c controlplane.Interface) func(context.Context) error { return c.WaitCleanup }
func migrate(c controlplane.Interface) func(context.Context) error      { return c.Migrate }
func awaitMigrated(c controlplane.Interface) func(context.Context) error {
	return c.WaitMigrate
}

func (s *Botanist) awaitControlPlane(c controlplane.Interface) func(context.Context) error {
	return func(ctx context.Context) error { return s.await(ctx, c.Wait) }
}

// runControlPlane reports the Deployments of a shoot's control plane whose programs do not run as available until ctx
// ends, as far as a kubelet could start their pods: the Secrets and ConfigMaps of their volumes exist.
func (s *Seed) runControlPlane(ctx context.Context, namespace string) error {
	const every = 500 * time.Millisecond

	return s.play(ctx, every, "report the Deployments in namespace "+namespace, func(ctx context.Context) error {
		return s.reportDeployments(ctx, namespace)
	})
}

func (s *Seed) reportDeployments(ctx context.Context, namespace string) error {
	deployments := &appsv1.DeploymentList{}
	if err := s.watched.List(ctx, deployments, client.InNamespace(namespace)); err != nil {
		return err
	}

	for i := range deployments.Items {
		d := &deployments.Items[i]
		if d.Name == v1beta1constants.DeploymentNameMachineControllerManager || d.Name == cloudControllerManager || slices.Contains(volumePods, d.Name) {
			continue // It runs.
		}

		mounted, err := s.volumesExist(ctx, namespace, d.Spec.Template.Spec.Volumes)
		if err != nil {
			return err
		}

		if err := s.reportDeployment(ctx, d, mounted); client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
			return err
		}
	}

	return nil
}

// reportDeployment updates the status of a Deployment if it differs. starts is set if a kubelet
// could start its pods.
func (s *Seed) reportDeployment(ctx context.Context, d *appsv1.Deployment, starts bool) error {
	want := statusOf(d, starts)
	if d.Status.ObservedGeneration == d.Generation && d.Status.ReadyReplicas == want.ReadyReplicas &&
		slices.ContainsFunc(d.Status.Conditions, func(c appsv1.DeploymentCondition) bool {
			return c.Type == want.Conditions[0].Type && c.Status == want.Conditions[0].Status
		}) {
		return nil
	}

	d.Status = want

	return s.Client.Status().Update(ctx, d)
}

// statusOf returns the status that the controllers of a seed write.
func statusOf(d *appsv1.Deployment, starts bool) appsv1.DeploymentStatus {
	ready := ptr.Deref(d.Spec.Replicas, 1)
	available := corev1.ConditionTrue
	if !starts {
		ready = 0
		available = corev1.ConditionFalse
	}

	progress := appsv1.DeploymentCondition{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue}
	if starts {
		progress.Reason = "NewReplicaSetAvailable" // Without it, gardener-resource-manager reports a rollout.
	}

	return appsv1.DeploymentStatus{
		ObservedGeneration: d.Generation,
		Replicas:           ready,
		UpdatedReplicas:    ready,
		ReadyReplicas:      ready,
		AvailableReplicas:  ready,
		Conditions:         []appsv1.DeploymentCondition{{Type: appsv1.DeploymentAvailable, Status: available}, progress},
	}
}

// volumesExist reports whether all objects of a pod's volumes exist, with the keys that it mounts.
func (s *Seed) volumesExist(ctx context.Context, namespace string, volumes []corev1.Volume) (bool, error) {
	for _, v := range volumes {
		var sources []corev1.VolumeProjection

		switch {
		case v.Projected != nil:
			sources = v.Projected.Sources
		case v.Secret != nil:
			sources = []corev1.VolumeProjection{{Secret: &corev1.SecretProjection{
				LocalObjectReference: corev1.LocalObjectReference{Name: v.Secret.SecretName},
				Items:                v.Secret.Items,
			}}}
		case v.ConfigMap != nil:
			sources = []corev1.VolumeProjection{{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: v.ConfigMap.LocalObjectReference}}}
		case v.EmptyDir == nil:
			return false, fmt.Errorf("volume %s has a source that the tests do not know", v.Name)
		}

		for _, source := range sources {
			if exists, err := s.sourceExists(ctx, namespace, source); !exists || err != nil {
				return false, err
			}
		}
	}

	return true, nil
}

func (s *Seed) sourceExists(ctx context.Context, namespace string, source corev1.VolumeProjection) (bool, error) {
	switch {
	case source.ConfigMap != nil:
		err := s.watched.Get(ctx, client.ObjectKey{Namespace: namespace, Name: source.ConfigMap.Name}, &corev1.ConfigMap{})

		return err == nil, client.IgnoreNotFound(err)
	case source.Secret != nil:
		secret := &corev1.Secret{}
		if err := s.watched.Get(ctx, client.ObjectKey{Namespace: namespace, Name: source.Secret.Name}, secret); err != nil {
			return false, client.IgnoreNotFound(err)
		}

		return !slices.ContainsFunc(source.Secret.Items, func(i corev1.KeyToPath) bool { return len(secret.Data[i.Key]) == 0 }), nil
	default:
		return false, errors.New("a projected volume has a source that the tests do not know")
	}
}

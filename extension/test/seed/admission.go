// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package seed

import (
	"context"
	"fmt"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	gardenerutils "github.com/gardener/gardener/pkg/utils/gardener"
	"github.com/gardener/gardener/pkg/utils/managedresources"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/charts"
)

const (
	// AdmissionAccount is the account of the admission in the runtime cluster, in the namespace of Gardener's
	// components.
	AdmissionAccount = "gardener-extension-admission-kubevirt"
	// AdmissionGardenAccount is its account in the virtual garden cluster, in the namespace kube-system.
	AdmissionGardenAccount = "extension-admission-" + registration
)

// AdmissionLease returns the Lease of the admission's leader.
func AdmissionLease() *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Namespace: v1beta1constants.GardenNamespace,
		Name:      "admission-kubevirt-leader-election",
	}}
}

// startAdmission installs the charts of the admission as gardener-operator does, with the same values and
// functions (pkg/operator/controller/extension/extension/admission in Gardener's module), and starts it.
func (s *Seed) startAdmission(ctx context.Context) error {
	if err := s.installAdmissionInGarden(ctx); err != nil {
		return err
	}

	if err := s.installAdmissionInRuntime(ctx); err != nil {
		return err
	}

	deployment, err := s.deployment(ctx, v1beta1constants.GardenNamespace, AdmissionAccount)
	if err != nil {
		return err
	}

	if err := awaitAllowed(ctx, s.Garden, "system:serviceaccount:"+metav1.NamespaceSystem+":"+AdmissionGardenAccount,
		authorizationv1.ResourceAttributes{Verb: "get", Group: gardencorev1beta1.GroupName, Resource: "cloudprofiles"}); err != nil {
		return err
	}

	if _, s.AdmissionMetrics, err = s.startProgram(ctx, deployment); err != nil {
		return err
	}

	return s.awaitRegistered(ctx, s.Garden, deployment.Name, AdmissionLease())
}

// installAdmissionInGarden installs the permissions of the admission in the virtual garden cluster, and the
// namespace that owns its webhooks.
func (s *Seed) installAdmissionInGarden(ctx context.Context) error {
	const name = "admission-application"

	rendered, err := render(s.gardenConfig, charts.AdmissionApplicationPath, ExtensionNamespace, map[string]any{"virtualCluster": map[string]any{
		"enabled": true, "serviceAccount": map[string]any{"name": AdmissionGardenAccount, "namespace": metav1.NamespaceSystem},
	}})
	if err != nil {
		return err
	}

	registry := managedresources.NewRegistry(kubernetes.GardenScheme, kubernetes.GardenCodec, kubernetes.GardenSerializer)
	if err := registry.Add(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ExtensionNamespace}}); err != nil {
		return err
	}

	for file, content := range rendered {
		registry.AddSerialized(file, content)
	}

	objects, err := registry.SerializedObjects()
	if err != nil {
		return err
	}

	if err := managedresources.CreateForShoot(ctx, s.Client, v1beta1constants.GardenNamespace, name, managedresources.LabelValueOperator, false, objects); err != nil {
		return fmt.Errorf("create ManagedResource %s: %w", name, err)
	}

	return s.awaitApplied(ctx, name)
}

// installAdmissionInRuntime installs the Deployment of the admission in the runtime cluster, with a volume
// that has the kubeconfig and the token for the virtual garden cluster. gardener-resource-manager
// creates the account, and requests the token.
func (s *Seed) installAdmissionInRuntime(ctx context.Context) error {
	const name, namespace = "admission-runtime", v1beta1constants.GardenNamespace

	access := gardenerutils.NewShootAccessSecret(AdmissionGardenAccount, namespace)
	if err := access.Reconcile(ctx, s.Client); err != nil {
		return fmt.Errorf("create Secret %s: %w", access.Secret.Name, err)
	}

	generic, err := s.createGardenKubeconfig(ctx, namespace)
	if err != nil {
		return err
	}

	objects, err := render(s.seedConfig, charts.AdmissionRuntimePath, namespace, map[string]any{
		"runtimeCluster": map[string]any{"priorityClassName": v1beta1constants.PriorityClassNameGardenSystem400},
		"virtualCluster": map[string]any{"enabled": true, "namespace": ExtensionNamespace},
	})
	if err != nil {
		return err
	}

	if err := gardenerutils.MutateObjectsInSecretData(objects, namespace, []string{appsv1.GroupName}, func(object runtime.Object) error {
		return gardenerutils.InjectGenericGardenKubeconfig(object, generic, access.Secret.Name, gardenerutils.VolumeMountPathGenericKubeconfig)
	}); err != nil {
		return fmt.Errorf("inject the kubeconfig of the virtual garden cluster: %w", err)
	}

	if err := managedresources.CreateForSeed(ctx, s.Client, namespace, name, false, objects); err != nil {
		return fmt.Errorf("create ManagedResource %s: %w", name, err)
	}

	return s.awaitApplied(ctx, name)
}

// createGardenKubeconfig creates the kubeconfig of the virtual garden cluster for the pods of Gardener's
// components, and returns the name of its Secret.
func (s *Seed) createGardenKubeconfig(ctx context.Context, namespace string) (string, error) {
	kubeconfig, err := genericKubeconfig(s.gardenConfig)
	if err != nil {
		return "", err
	}

	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: v1beta1constants.SecretNameGenericTokenKubeconfig},
		Data:       map[string][]byte{"kubeconfig": kubeconfig},
	}

	return secret.Name, wrap(s.Client.Create(ctx, secret), "create Secret "+secret.Name)
}

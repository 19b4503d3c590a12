// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package seed

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	"github.com/gardener/gardener/pkg/chartrenderer"
	"github.com/gardener/gardener/pkg/utils/kubernetes/health"
	"github.com/gardener/gardener/pkg/utils/managedresources"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/charts"
)

const (
	// registration is the name of the ControllerRegistration (extension/example).
	registration = "provider-kubevirt"
	// ExtensionNamespace is the namespace in which gardenlet installs the extension.
	ExtensionNamespace = "extension-" + registration
)

// gardenerModule matches Gardener's module in a go.mod.
var gardenerModule = regexp.MustCompile(`(?m)^\tgithub\.com/gardener/gardener (v\S+)$`)

// GardenerVersion returns the version of Gardener's module, which go.mod of the extension has.
func GardenerVersion() string {
	content, err := readFile("extension", "go.mod")

	match := gardenerModule.FindSubmatch(content)
	if err != nil || match == nil {
		panic("extension/go.mod has no version of Gardener's module")
	}

	return string(match[1])
}

// install installs the chart of the extension as gardenlet does: gardener-resource-manager applies
// the objects. It returns the Deployment.
func (s *Seed) install(ctx context.Context) (*appsv1.Deployment, error) {
	if err := s.createGardenNamespace(ctx); err != nil {
		return nil, err
	}

	// gardenlet copies the last label from the annotation of the ControllerRegistration.
	if err := s.namespace(ctx, ExtensionNamespace, map[string]string{
		v1beta1constants.GardenRole:                      v1beta1constants.GardenRoleExtension,
		v1beta1constants.LabelControllerRegistrationName: registration,
		"pod-security.kubernetes.io/enforce":             "restricted",
	}); err != nil {
		return nil, err
	}

	objects, err := render(s.seedConfig, charts.ExtensionPath, ExtensionNamespace, map[string]any{
		"version": GardenerVersion(), "garden": map[string]any{"clusterIdentity": "garden"}, "seed": map[string]any{"name": "seed", "provider": "local"},
	})
	if err != nil {
		return nil, err
	}

	if err := managedresources.Create(ctx, s.Client, v1beta1constants.GardenNamespace, registration, nil, false,
		v1beta1constants.SeedResourceManagerClass, objects, nil, nil, nil); err != nil {
		return nil, fmt.Errorf("create ManagedResource %s: %w", registration, err)
	}

	if err := s.awaitApplied(ctx, registration); err != nil {
		return nil, err
	}

	return s.deployment(ctx, ExtensionNamespace, "gardener-extension-provider-kubevirt")
}

// createGardenNamespace creates the namespace of Gardener's components in the seed.
func (s *Seed) createGardenNamespace(ctx context.Context) error {
	return s.namespace(ctx, v1beta1constants.GardenNamespace, nil)
}

func (s *Seed) deployment(ctx context.Context, namespace, name string) (*appsv1.Deployment, error) {
	deployment := &appsv1.Deployment{}
	err := s.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, deployment)

	return deployment, wrap(err, "get Deployment "+name)
}

// render renders a chart for a cluster with the values that Gardener adds below gardener.
func render(cluster *rest.Config, chart, namespace string, gardener map[string]any) (map[string][]byte, error) {
	renderer, err := chartrenderer.NewForConfig(cluster)
	if err != nil {
		return nil, err
	}

	release, err := renderer.RenderEmbeddedFS(charts.Installation, chart, registration, namespace, map[string]any{"gardener": gardener})
	if err != nil {
		return nil, err
	}

	return release.AsSecretData(), nil
}

// awaitApplied waits until gardener-resource-manager applied the objects of a ManagedResource.
func (s *Seed) awaitApplied(ctx context.Context, name string) error {
	const every, atMost = 200 * time.Millisecond, time.Minute

	var last error

	failed := wait.PollUntilContextTimeout(ctx, every, atMost, true, func(ctx context.Context) (bool, error) {
		resource := &resourcesv1alpha1.ManagedResource{}
		if err := s.Client.Get(ctx, client.ObjectKey{Namespace: v1beta1constants.GardenNamespace, Name: name}, resource); err != nil {
			return false, err
		}

		last = health.CheckManagedResourceApplied(resource)

		return last == nil, nil
	})
	if failed != nil {
		return fmt.Errorf("apply the ManagedResource %s: %w", name, errors.Join(failed, last))
	}

	return nil
}

// account writes a kubeconfig with a token of the Deployment's ServiceAccount, and waits until the API
// server knows its permissions.
func (s *Seed) account(ctx context.Context, deployment *appsv1.Deployment, needed authorizationv1.ResourceAttributes) (string, error) {
	name := deployment.Spec.Template.Spec.ServiceAccountName

	for _, attributes := range []authorizationv1.ResourceAttributes{
		needed, {Verb: "create", Group: "coordination.k8s.io", Resource: "leases", Namespace: deployment.Namespace},
	} {
		if err := awaitAllowed(ctx, s.Client, "system:serviceaccount:"+deployment.Namespace+":"+name, attributes); err != nil {
			return "", err
		}
	}

	return s.inClusterConfig(ctx, client.ObjectKey{Namespace: deployment.Namespace, Name: name}, filepath.Join(s.Folder, deployment.Name+".kubeconfig"))
}

func awaitAllowed(ctx context.Context, cluster client.Client, user string, attributes authorizationv1.ResourceAttributes) error {
	const every, atMost = 50 * time.Millisecond, time.Minute

	err := wait.PollUntilContextTimeout(ctx, every, atMost, true, func(ctx context.Context) (bool, error) {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: user, ResourceAttributes: &attributes}}
		err := cluster.Create(ctx, review)

		return review.Status.Allowed, err
	})

	return wrap(err, "await the permissions of "+user)
}

// inClusterConfig writes what replaces a pod's in-cluster configuration: a kubeconfig with a token of
// its ServiceAccount.
func (s *Seed) inClusterConfig(ctx context.Context, account client.ObjectKey, file string) (string, error) {
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To(int64(24 * time.Hour / time.Second))}}
	if err := s.Client.SubResource("token").Create(ctx, &corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{Namespace: account.Namespace, Name: account.Name},
	}, request); err != nil {
		return "", fmt.Errorf("request a token for ServiceAccount %s: %w", account, err)
	}

	return file, writeYAML(file, kubeconfigOf(s.seedConfig, account.Namespace, map[string]any{"token": request.Status.Token}))
}

// programOf returns the name of the program of an image of this repository.
func programOf(image string) string {
	name := image[strings.LastIndex(image, "/")+1:]
	name, _, _ = strings.Cut(name, ":")

	return name
}

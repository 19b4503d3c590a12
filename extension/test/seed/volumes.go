// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package seed

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	"github.com/gardener/gardener/pkg/utils/kubernetes/health"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// volumePods are the Deployments of a shoot's control plane whose programs run: the CSI driver with its sidecars, and
// the snapshot controller.
var volumePods = []string{"csi-driver-controller", "csi-snapshot-controller"}

// runVolumes runs the pods of volumePods until ctx ends. The sidecars are the real programs; that of the lab
// (test/lab/modules/csi-driver) takes the place of KubeVirt's driver. For the driver's pods on the Nodes, it registers
// the Nodes; for the storage of the provider cluster, it makes snapshots.
func (s *Seed) runVolumes(ctx context.Context, namespace, providerNamespace string) (failed error) {
	pods := make([]*kubelet, 0, len(volumePods))

	for _, name := range volumePods {
		pods = append(pods, &kubelet{
			seed:   s,
			key:    client.ObjectKey{Namespace: namespace, Name: name},
			folder: filepath.Join(s.Folder, "pods", namespace, name),
			// They exit if they lose their Lease or the driver.
			mayStart: s.mayUseShoot,
			mayExit:  true,
		})
	}

	defer func() {
		for _, pod := range pods {
			failed = errors.Join(failed, pod.stop(ctx))
		}
	}()

	const every = 500 * time.Millisecond

	return s.play(ctx, every, "run the CSI driver of namespace "+namespace, func(ctx context.Context) error {
		for _, pod := range pods {
			if err := errors.Join(pod.sync(ctx), pod.reportRunning(ctx)); err != nil {
				return err
			}
		}

		if len(pods[0].running) == 0 {
			return nil
		}

		return errors.Join(s.registerNodes(ctx, namespace), s.provideSnapshots(ctx, providerNamespace))
	})
}

// reportRunning reports whether the pod of a Deployment runs.
func (k *kubelet) reportRunning(ctx context.Context) error {
	deployment := &appsv1.Deployment{}
	if err := k.seed.watched.Get(ctx, k.key, deployment); err != nil {
		return client.IgnoreNotFound(err)
	}

	runs := len(k.running) > 0 || ptr.Deref(deployment.Spec.Replicas, 1) == 0

	err := k.reportPods(ctx, deployment, runs)
	if err == nil {
		err = k.seed.reportDeployment(ctx, deployment, runs)
	}

	if apierrors.IsConflict(err) {
		return nil
	}

	return client.IgnoreNotFound(err)
}

// programOfVolumes returns the program of a container of volumePods; "" if the lab has none.
func (s *Seed) programOfVolumes(container corev1.Container) (string, error) {
	switch container.Name {
	case "kubevirt-csi-driver":
		return s.state.CSIDriver, nil
	case "kubevirt-csi-liveness-probe":
		return "", nil // Its module is not served.
	}

	name := container.Image[strings.LastIndex(container.Image, "/")+1:]
	if s.state.Sidecars[name] == "" {
		return "", fmt.Errorf("container %s: the lab has no program for the image %s (test/lab/binaries/sidecars.go)", container.Name, name)
	}

	return s.state.Sidecars[name], nil
}

// mayUseShoot reports whether the accounts of a pod have their permissions in the shoot, and the kinds exist. In a
// seed, nodes pull the images meanwhile.
func (s *Seed) mayUseShoot(ctx context.Context, deployment *appsv1.Deployment) (bool, error) {
	for _, name := range []string{"extension-controlplane-shoot", "extension-controlplane-shoot-crds"} {
		resource := &resourcesv1alpha1.ManagedResource{}
		if err := s.Client.Get(ctx, client.ObjectKey{Namespace: deployment.Namespace, Name: name}, resource); err != nil {
			return false, client.IgnoreNotFound(err)
		}

		if err := health.CheckManagedResourceApplied(resource); err != nil {
			return false, nil //nolint:nilerr // not yet
		}
	}

	for _, account := range accountsOf(deployment) {
		if permitted, err := s.permitted(ctx, account); err != nil || !permitted {
			return false, err
		}
	}

	return true, nil
}

// accountsOf returns the accounts in the shoot of a Deployment's containers.
func accountsOf(deployment *appsv1.Deployment) (accounts []string) {
	for _, volume := range deployment.Spec.Template.Spec.Volumes {
		if volume.Projected == nil {
			continue
		}

		for _, source := range volume.Projected.Sources {
			if account, found := strings.CutPrefix(source.Secret.Name, "shoot-access-"); found {
				accounts = append(accounts, account)
			}
		}
	}

	return accounts
}

// permitted reports whether the API server knows the Roles of an account.
func (s *Seed) permitted(ctx context.Context, account string) (bool, error) {
	roles, err := rolesOf(ctx, s.Target, metav1.NamespaceSystem, account)
	if err != nil {
		return false, client.IgnoreNotFound(err)
	}

	for _, rules := range roles {
		for _, rule := range rules {
			review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
				User:               "system:serviceaccount:" + metav1.NamespaceSystem + ":" + account,
				ResourceAttributes: exampleOf(rule),
			}}
			if err := s.Target.Create(ctx, review); err != nil || !review.Status.Allowed {
				return false, err
			}
		}
	}

	return len(roles) > 0, nil
}

// exampleOf returns a request that a rule allows.
func exampleOf(rule rbacv1.PolicyRule) *authorizationv1.ResourceAttributes {
	resource, subresource, _ := strings.Cut(rule.Resources[0], "/")
	example := &authorizationv1.ResourceAttributes{
		Namespace:   metav1.NamespaceSystem,
		Verb:        rule.Verbs[0],
		Group:       rule.APIGroups[0],
		Resource:    resource,
		Subresource: subresource,
	}

	if len(rule.ResourceNames) > 0 {
		example.Name = rule.ResourceNames[0]
	}

	return example
}

// deleteAll deletes those of the objects that are not wanted.
func deleteAll[T client.Object](ctx context.Context, c client.Client, objects []T, isWanted func(T) bool) (failed error) {
	for _, object := range slices.DeleteFunc(objects, isWanted) {
		failed = errors.Join(failed, client.IgnoreNotFound(c.Delete(ctx, object)))
	}

	return failed
}

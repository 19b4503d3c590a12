// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/test/seed"
)

// TestControlPlane takes the control plane of a shoot through its lifecycle. It is the only test of the
// suite whose shoots have one: see seed.Botanist.
func TestControlPlane(t *testing.T) { //nolint:tparallel // The steps change one shoot.
	t.Parallel()

	shoot := newShoot(t, named("control"))
	shoot.HasControlPlane = true
	pool(shoot, 0).Minimum, pool(shoot, 0).Zones = 1, pool(shoot, 0).Zones[:1]

	var applied []resourcesv1alpha1.ObjectReference

	for _, step := range []struct {
		name string
		run  func(*testing.T, *seed.Botanist)
	}{
		{"objects", func(t *testing.T, s *seed.Botanist) { t.Helper(); applied = requireObjects(t, s) }},
		{"rules of the programs", requireRules},
		{"Node", requireInitialized},
		{"load balancer", requireLoadBalancer},
		{"volumes", requireVolumes},
		{"needed permissions", requireNeededPermissions},
		{"permissions in the provider cluster", requireProviderPermissions},
		{"permissions in the shoot", requireShootPermissions},
		{"token renewed", renewToken},
		{"credentials rotated", rotateUnderControlPlane},
		{"certificate authorities rotated", rotateCertificateAuthorities},
		{"storage class changed", changeStorageClass},
		{"volumes stay in their zone", keepVolumesInZone},
		{"without permission for accounts", withoutAccounts},
		{"hibernated and woken up", hibernate},
		{"moved to another seed", moveControlPlane},
		{"deleted", func(t *testing.T, s *seed.Botanist) { t.Helper(); deleteControlPlane(t, s, applied) }},
		{"force deleted", func(t *testing.T, _ *seed.Botanist) { t.Helper(); forceDeleteControlPlane(t) }},
	} {
		if !t.Run(step.name, func(t *testing.T) { step.run(t, shoot) }) {
			return
		}
	}
}

// programs are the Deployments of the control plane.
var programs = []string{"cloud-controller-manager", "csi-driver-controller", "csi-snapshot-controller"}

// requireDeployments waits until the programs have as many ready pods.
func requireDeployments(t *testing.T, shoot *seed.Botanist, replicas int32) {
	t.Helper()
	eventually(t, func(ctx context.Context) (bool, string) {
		seen := ""

		for _, name := range programs {
			d := &appsv1.Deployment{}
			if err := theSeed.Client.Get(ctx, client.ObjectKey{Namespace: shoot.Namespace, Name: name}, d); err != nil {
				return false, err.Error()
			}

			if ptr.Deref(d.Spec.Replicas, 1) != replicas || d.Status.ObservedGeneration != d.Generation || d.Status.ReadyReplicas != replicas {
				seen += fmt.Sprintf("%s wants %d, has %d; ", name, ptr.Deref(d.Spec.Replicas, 1), d.Status.ReadyReplicas)
			}
		}

		return seen == "", seen
	})
}

// providerSecret returns the Secret with which a program reaches the provider cluster.
func providerSecret(t *testing.T, shoot *seed.Botanist, program string) *corev1.Secret {
	t.Helper()

	volumes := deployment(t, shoot, program).Spec.Template.Spec.Volumes
	secret := &corev1.Secret{}

	i := slices.IndexFunc(volumes, func(v corev1.Volume) bool { return v.Name == "provider" })
	require.GreaterOrEqual(t, i, 0)
	require.NoError(t, theSeed.Client.Get(t.Context(), client.ObjectKey{Namespace: shoot.Namespace, Name: volumes[i].Secret.SecretName}, secret))

	return secret
}

// renewToken lets a token reach the time of its renewal.
func renewToken(t *testing.T, shoot *seed.Botanist) {
	t.Helper()

	secret := providerSecret(t, shoot, "cloud-controller-manager")
	before := string(secret.Data["token"])
	require.NotEmpty(t, before)

	metav1.SetMetaDataAnnotation(&secret.ObjectMeta, renewalAnnotation, time.Now().UTC().Format(time.RFC3339))
	require.NoError(t, theSeed.Client.Update(t.Context(), secret))

	// It reads the time again when the ControlPlane changes.
	touch(t, shoot)

	eventually(t, func(ctx context.Context) (bool, string) {
		err := theSeed.Client.Get(ctx, client.ObjectKeyFromObject(secret), secret)

		return err == nil && string(secret.Data["token"]) != before, "the token is the same"
	})
	requireAccount(t, shoot, secret)
}

// touch changes the ControlPlane without an operation of gardenlet.
func touch(t *testing.T, shoot *seed.Botanist) {
	t.Helper()

	cp := &extensionsv1alpha1.ControlPlane{}
	require.NoError(t, theSeed.Client.Get(t.Context(), client.ObjectKey{Namespace: shoot.Namespace, Name: shoot.Object.Name}, cp))

	before := cp.DeepCopy()
	metav1.SetMetaDataAnnotation(&cp.ObjectMeta, "touched", "true")
	require.NoError(t, theSeed.Client.Patch(t.Context(), cp, client.MergeFrom(before)))
}

// rotateUnderControlPlane replaces the credentials of the shoot. The accounts stay valid, and are still
// maintained with the new credentials.
func rotateUnderControlPlane(t *testing.T, shoot *seed.Botanist) {
	t.Helper()

	secret := providerSecret(t, shoot, "csi-driver-controller")

	require.NoError(t, shoot.RotateCredentials(t.Context()))
	require.NoError(t, shoot.Reconcile(t.Context()))
	requireApplied(t, shoot, "extension-controlplane-seed")

	after := providerSecret(t, shoot, "csi-driver-controller")
	require.Equal(t, secret.Data, after.Data, "a token that is still valid")
	requireAccount(t, shoot, after)
	requireDeployments(t, shoot, 1)
}

// changeStorageClass changes an immutable field of a StorageClass.
func changeStorageClass(t *testing.T, shoot *seed.Botanist) {
	t.Helper()

	before := &storagev1.StorageClass{}
	require.NoError(t, theSeed.Target.Get(t.Context(), client.ObjectKey{Name: "default"}, before))
	require.Equal(t, map[string]string{"infraStorageClassName": "wait", "bus": "scsi"}, before.Parameters)

	changeVolumeClass(t, shoot, func(c *v1alpha1.VolumeClass) {
		c.ReclaimPolicy = corev1.PersistentVolumeReclaimRetain
		c.Zones = []string{"europe-west1-b"}
	})
	require.NoError(t, shoot.Reconcile(t.Context()))

	after := &storagev1.StorageClass{}

	eventually(t, func(ctx context.Context) (bool, string) {
		err := theSeed.Target.Get(ctx, client.ObjectKey{Name: "default"}, after)

		return err == nil && after.UID != before.UID, fmt.Sprintf("%v %v", err, after.UID)
	})
	require.Equal(t, corev1.PersistentVolumeReclaimRetain, *after.ReclaimPolicy)
	require.Equal(t, []string{"europe-west1-b"}, after.AllowedTopologies[0].MatchLabelExpressions[0].Values)
	require.Equal(t, "true", after.Annotations["storageclass.kubernetes.io/is-default-class"])
}

func changeVolumeClass(t *testing.T, shoot *seed.Botanist, change func(*v1alpha1.VolumeClass)) {
	t.Helper()

	config := &v1alpha1.CloudProfileConfig{}
	require.Empty(t, v1alpha1.Decode(shoot.Profile.Spec.ProviderConfig, nil, config))
	change(&config.VolumeClasses[0])
	shoot.Profile.Spec.ProviderConfig.Raw = encode(t, config)
}

// withoutAccounts revokes the permission of the shoot's credentials to create accounts, and
// restores it. The program uses a copy of the credentials as soon as its token is due for renewal,
// and an account again after the permission is restored, without a restart.
func withoutAccounts(t *testing.T, shoot *seed.Botanist) {
	t.Helper()

	role := &rbacv1.Role{}
	before := deployment(t, shoot, "cloud-controller-manager")
	require.NoError(t, theSeed.Provider.Get(t.Context(), client.ObjectKey{Namespace: shoot.ProviderNamespace, Name: "gardener-extension-provider-kubevirt"}, role))

	all := role.DeepCopy().Rules
	role.Rules = slices.DeleteFunc(role.Rules, func(r rbacv1.PolicyRule) bool { return slices.Contains(r.APIGroups, rbacv1.GroupName) })
	require.NoError(t, theSeed.Provider.Update(t.Context(), role))

	secret := providerSecret(t, shoot, "cloud-controller-manager")
	delete(secret.Annotations, renewalAnnotation)
	require.NoError(t, theSeed.Client.Update(t.Context(), secret))
	requireToken(t, shoot, func(token string) bool { return strings.Contains(string(shoot.Kubeconfig), token) })

	role.Rules = all
	require.NoError(t, theSeed.Provider.Update(t.Context(), role))
	requireToken(t, shoot, func(token string) bool { return !strings.Contains(string(shoot.Kubeconfig), token) })
	requireAccount(t, shoot, providerSecret(t, shoot, "cloud-controller-manager"))
	require.Equal(t, before.Spec.Template, deployment(t, shoot, "cloud-controller-manager").Spec.Template)
}

const renewalAnnotation = "kubevirt.provider.extensions.gardener.cloud/renew-token-at"

// requireToken reconciles the shoot until the token of cloud-controller-manager is as expected.
func requireToken(t *testing.T, shoot *seed.Botanist, expected func(string) bool) {
	t.Helper()

	const attempts = 30 // The API server may not know the permissions yet.

	for range attempts {
		require.NoError(t, shoot.Reconcile(t.Context()))

		if expected(string(providerSecret(t, shoot, "cloud-controller-manager").Data["token"])) {
			return
		}
	}

	require.Fail(t, "the token is of the other account")
}

func deployment(t *testing.T, shoot *seed.Botanist, name string) *appsv1.Deployment {
	t.Helper()

	d := &appsv1.Deployment{}
	require.NoError(t, theSeed.Client.Get(t.Context(), client.ObjectKey{Namespace: shoot.Namespace, Name: name}, d))

	return d
}

// hibernate scales the programs down after kube-apiserver, and up again.
func hibernate(t *testing.T, shoot *seed.Botanist) {
	t.Helper()

	server := kubeAPIServer(shoot.Namespace)
	require.NoError(t, theSeed.Client.Create(t.Context(), server))

	shoot.Object.Spec.Hibernation = &gardencorev1beta1.Hibernation{Enabled: ptr.To(true)}
	require.NoError(t, shoot.Reconcile(t.Context()))
	requireDeployments(t, shoot, 1)

	require.NoError(t, theSeed.Client.Patch(t.Context(), server, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":0}}`))))
	requireDeployments(t, shoot, 0)
	require.NoError(t, theSeed.Client.Delete(t.Context(), server))

	shoot.Object.Spec.Hibernation = nil
	require.NoError(t, shoot.Reconcile(t.Context()))
	requireDeployments(t, shoot, 1)
}

// kubeAPIServer returns the Deployment of a shoot's kube-apiserver, which the lab runs as a process.
func kubeAPIServer(namespace string) *appsv1.Deployment {
	labels := map[string]string{"role": "apiserver"}

	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "kube-apiserver"},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](1),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "kube-apiserver", Image: "kube-apiserver"}}},
			},
		},
	}
}

// moveControlPlane migrates the shoot: its objects in the shoot and in the provider cluster stay.
func moveControlPlane(t *testing.T, shoot *seed.Botanist) {
	t.Helper()

	account := accountUID(t, shoot)
	class := storageClassUID(t)

	state, err := shoot.Migrate(t.Context())
	require.NoError(t, err)
	require.Equal(t, class, storageClassUID(t), "without a seed")
	require.NoError(t, shoot.Restore(t.Context(), state))
	requireApplied(t, shoot, "extension-controlplane-storageclasses")
	requireDeployments(t, shoot, 1)

	require.Equal(t, account, accountUID(t, shoot))
	require.Equal(t, class, storageClassUID(t))
	requireAccount(t, shoot, providerSecret(t, shoot, "cloud-controller-manager"))
}

func accountUID(t *testing.T, shoot *seed.Botanist) types.UID {
	t.Helper()

	account := &corev1.ServiceAccount{}
	require.NoError(t, theSeed.Provider.Get(t.Context(), client.ObjectKey{Namespace: shoot.ProviderNamespace, Name: shoot.Namespace + "-cloud-controller-manager"}, account))

	return account.UID
}

func storageClassUID(t *testing.T) types.UID {
	t.Helper()

	class := &storagev1.StorageClass{}
	require.NoError(t, theSeed.Target.Get(t.Context(), client.ObjectKey{Name: "default"}, class))

	return class.UID
}

// deleteControlPlane deletes the shoot. A load balancer is left, as if a Service had not been deleted.
func deleteControlPlane(t *testing.T, shoot *seed.Botanist, inShoot []resourcesv1alpha1.ObjectReference) {
	t.Helper()

	labels := map[string]string{"kubevirt.provider.extensions.gardener.cloud/cluster": shoot.Namespace}
	require.NoError(t, theSeed.Provider.Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: shoot.ProviderNamespace, Name: "left", Labels: labels},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}},
	}))

	requireNothingLeft(t, shoot)

	for _, reference := range inShoot {
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(reference.GroupVersionKind())

		err := theSeed.Target.Get(t.Context(), client.ObjectKey{Namespace: reference.Namespace, Name: reference.Name}, object)
		require.Truef(t, apierrors.IsNotFound(err) || meta.IsNoMatchError(err), "%s %s: %v", reference.Kind, reference.Name, err)
	}
}

// forceDeleteControlPlane deletes a shoot whose provider cluster does not respond. The seed is empty
// afterwards; the account stays in the provider cluster.
func forceDeleteControlPlane(t *testing.T) {
	t.Helper()

	shoot := newShoot(t, named("control-forced"))
	shoot.HasControlPlane = true
	pool(shoot, 0).Minimum = 0

	require.NoError(t, shoot.Reconcile(t.Context()))
	requireApplied(t, shoot, "extension-controlplane-seed")
	require.NoError(t, shoot.SetCredentials(t.Context(), []byte(silentServer(t))))
	require.NoError(t, shoot.ForceDelete(t.Context()))
	require.NotEmpty(t, accountUID(t, shoot))
}

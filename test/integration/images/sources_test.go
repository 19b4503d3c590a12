// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/storage"
)

// TestSharedImage applies the shipped manifests of one boot source for all shoots, and creates
// machines of two shoots from it. Neither shoot has its own image.
func TestSharedImage(t *testing.T) {
	t.Parallel()

	one := harness.NewShoot(t)
	other := harness.NewShoot(t)
	stranger := harness.NewShoot(t)
	images := one.Name + "-images"
	applySharedImage(t, one, images, one.ProviderNamespace, other.ProviderNamespace)

	d := harness.NewDriver(harness.Settings{Grace: harness.Settled})
	root := fmt.Sprintf(`{"sourceRef":{"kind":"DataSource","namespace":%q,"name":"worker"},"storage":{"resources":{"requests":{"storage":"20Gi"}}}}`, images)

	for _, s := range []*harness.Shoot{one, other} {
		m := s.NewMachine("zone-a", root)
		_, err := m.Create(t.Context(), d)
		require.NoError(t, err)
		m.AwaitScheduled(t, d)
		require.Empty(t, s.Images(t))
		require.NoError(t, m.Remove(t.Context(), d))
		s.RequireNothingLeft(t)
	}

	d = harness.NewDriver(harness.Settings{Grace: harness.ShortGrace, Wait: time.Second})
	m := stranger.NewMachine("zone-a", root)
	err := stranger.AwaitFailure(t, &harness.Failure{Want: "CloneForbidden"}, m, d)
	require.ErrorContains(t, err, "CloneForbidden", "the RoleBinding does not name this namespace")
	require.NoError(t, m.Remove(t.Context(), d))
}

// applySharedImage applies kubernetes/shared-image in a separate namespace, for the allowed
// namespaces.
func applySharedImage(t *testing.T, s *harness.Shoot, namespace string, allowed ...string) {
	t.Helper()

	documents := s.Manifest(t, "shared-image/namespace.yaml")
	harness.CreateManifest(t, []byte(harness.MustReplace(string(documents[0]), "name: machine-images", "name: "+namespace)), s.Kube.CoreV1().Namespaces().Create)
	t.Cleanup(func() {
		require.NoError(t, s.Kube.CoreV1().Namespaces().Delete(context.WithoutCancel(t.Context()), namespace, metav1.DeleteOptions{}))
	})

	documents = s.Manifest(t, "shared-image/image.yaml")
	harness.CreateManifest(t, documents[0], s.CDI.CdiV1beta1().DataVolumes(namespace).Create)
	harness.CreateManifest(t, []byte(harness.MustReplace(string(documents[1]), "namespace: machine-images", "namespace: "+namespace)), s.CDI.CdiV1beta1().DataSources(namespace).Create)

	documents = s.Manifest(t, "shared-image/rbac.yaml")
	harness.CreateManifest(t, documents[0], s.Kube.RbacV1().Roles(namespace).Create)
	harness.CreateManifest(t, documents[1], func(ctx context.Context, binding *rbacv1.RoleBinding, opts metav1.CreateOptions) (*rbacv1.RoleBinding, error) {
		subject := binding.Subjects[0]
		binding.Subjects = nil

		for _, from := range allowed {
			subject.Name = strings.Replace(subject.Name, "shoot-machines", from, 1)
			binding.Subjects = append(binding.Subjects, subject)
			subject.Name = "system:serviceaccounts:shoot-machines"
		}

		return s.Kube.RbacV1().RoleBindings(namespace).Create(ctx, binding, opts)
	})
}

// TestZonalStorage tests the documented alternatives for storage that does not clone between zones.
func TestZonalStorage(t *testing.T) {
	t.Parallel()

	s := harness.NewShoot(t)
	d := harness.NewDriver(harness.Settings{Grace: harness.Settled})
	perZone := map[string]string{}
	perMachine := map[string]string{}

	for _, zone := range []string{"zone-a", "zone-b"} {
		perZone[zone] = rootOf(makeZonalClass(t, s, zone))
		perMachine[zone] = rootOf("zonal")
	}

	var machines []*harness.Machine

	for zone, root := range perZone {
		machines = append(machines, s.NewMachine(zone, root), s.NewMachine(zone, root))
	}

	for zone, root := range perMachine {
		m := s.NewMachine(zone, root)
		m.Class.ProviderSpec.Raw = harness.MergeFields(t, m.Class.ProviderSpec.Raw, `{"disablePreAllocatedDataVolumes":true}`)
		machines = append(machines, m)
	}

	createAll(t, d, machines)

	for _, m := range machines {
		m.AwaitScheduled(t, d)
	}

	require.Len(t, s.Images(t), 2, "one image per zone, since the storage class is part of the image's identity")
	removeAll(t, d, machines)
	s.RequireNothingLeft(t)
}

// makeZonalClass creates a storage class for the volumes of one zone, and returns its name.
func makeZonalClass(t *testing.T, s *harness.Shoot, zone string) string {
	t.Helper()

	classes := s.Kube.StorageV1().StorageClasses()
	class := &storagev1.StorageClass{
		ObjectMeta:           metav1.ObjectMeta{Name: s.Name + "-" + zone},
		Provisioner:          storage.Provisioner,
		Parameters:           map[string]string{storage.ZonalParameter: "true"},
		VolumeBindingMode:    new(storagev1.VolumeBindingWaitForFirstConsumer),
		AllowVolumeExpansion: new(true),
		AllowedTopologies: []corev1.TopologySelectorTerm{{
			MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{{Key: corev1.LabelTopologyZone, Values: []string{zone}}},
		}},
	}

	_, err := classes.Create(t.Context(), class, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, classes.Delete(context.WithoutCancel(t.Context()), class.Name, metav1.DeleteOptions{}))
	})

	describeStorage(t, s, class.Name)

	return class.Name
}

// describeStorage sets the properties of a storage class in its StorageProfile, as an administrator
// does for a CSI driver that CDI does not know.
func describeStorage(t *testing.T, s *harness.Shoot, class string) {
	t.Helper()

	harness.Eventually(t, "CDI has created a StorageProfile", func(ctx context.Context) (bool, error) {
		profile, err := s.CDI.CdiV1beta1().StorageProfiles().Get(ctx, class, metav1.GetOptions{})
		if err != nil {
			return false, nil //nolint:nilerr // CDI has not created it yet.
		}

		profile.Spec.CloneStrategy = new(cdiv1beta1.CloneStrategyCsiClone)
		profile.Spec.ClaimPropertySets = []cdiv1beta1.ClaimPropertySet{{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			VolumeMode:  new(corev1.PersistentVolumeBlock),
		}}
		_, err = s.CDI.CdiV1beta1().StorageProfiles().Update(ctx, profile, metav1.UpdateOptions{})

		return err == nil, nil
	})
}

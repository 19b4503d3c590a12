package integration

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

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane"
)

// TestSharedImage applies the shipped manifests of one boot source for all shoots, and makes machines of two shoots from it. Neither
// has an image of its own.
func TestSharedImage(t *testing.T) {
	t.Parallel()

	one, other, stranger := newShoot(t), newShoot(t), newShoot(t)
	images := one.Name + "-images"
	one.applySharedImage(t, images, one.ProviderNamespace, other.ProviderNamespace)

	d := newDriver(settings{grace: settled})
	root := fmt.Sprintf(`{"sourceRef":{"kind":"DataSource","namespace":%q,"name":"worker"},"storage":{"resources":{"requests":{"storage":"20Gi"}}}}`, images)

	for _, s := range []*shoot{one, other} {
		m := s.newMachine("zone-a", root)
		_, err := m.create(t.Context(), d)
		require.NoError(t, err)
		m.awaitScheduled(t, d)
		require.Empty(t, s.images(t))
		require.NoError(t, m.remove(t.Context(), d))
		s.requireNothingLeft(t)
	}

	d = newDriver(settings{grace: shortGrace, wait: time.Second})
	m := stranger.newMachine("zone-a", root)
	err := stranger.awaitFailure(t, &failure{want: "CloneForbidden"}, m, d)
	require.ErrorContains(t, err, "CloneForbidden", "a namespace that is not named may not")
	require.NoError(t, m.remove(t.Context(), d))
}

// applySharedImage applies kubernetes/shared-image in a namespace of its own, for these namespaces.
func (s *shoot) applySharedImage(t *testing.T, namespace string, allowed ...string) {
	t.Helper()

	documents := s.manifest(t, "shared-image/namespace.yaml")
	create(t, []byte(replace(string(documents[0]), "name: machine-images", "name: "+namespace)), s.kube.CoreV1().Namespaces().Create)
	t.Cleanup(func() {
		require.NoError(t, s.kube.CoreV1().Namespaces().Delete(context.WithoutCancel(t.Context()), namespace, metav1.DeleteOptions{}))
	})

	documents = s.manifest(t, "shared-image/image.yaml")
	create(t, documents[0], s.cdi.CdiV1beta1().DataVolumes(namespace).Create)
	create(t, []byte(replace(string(documents[1]), "namespace: machine-images", "namespace: "+namespace)), s.cdi.CdiV1beta1().DataSources(namespace).Create)

	documents = s.manifest(t, "shared-image/rbac.yaml")
	create(t, documents[0], s.kube.RbacV1().Roles(namespace).Create)
	create(t, documents[1], func(ctx context.Context, binding *rbacv1.RoleBinding, opts metav1.CreateOptions) (*rbacv1.RoleBinding, error) {
		subject := binding.Subjects[0]
		binding.Subjects = nil

		for _, from := range allowed {
			subject.Name = strings.Replace(subject.Name, "shoot-machines", from, 1)
			binding.Subjects = append(binding.Subjects, subject)
			subject.Name = "system:serviceaccounts:shoot-machines"
		}

		return s.kube.RbacV1().RoleBindings(namespace).Create(ctx, binding, opts)
	})
}

// TestZonalStorage tries the documented ways with storage that does not clone between zones.
func TestZonalStorage(t *testing.T) {
	t.Parallel()

	s, d := newShoot(t), newDriver(settings{grace: settled})
	perZone, perMachine := map[string]string{}, map[string]string{}

	for _, zone := range []string{"zone-a", "zone-b"} {
		perZone[zone] = rootOf(s.makeZonalClass(t, zone))
		perMachine[zone] = rootOf("zonal")
	}

	var machines []*machine

	for zone, root := range perZone {
		machines = append(machines, s.newMachine(zone, root), s.newMachine(zone, root))
	}

	for zone, root := range perMachine {
		m := s.newMachine(zone, root)
		m.class.ProviderSpec.Raw = layOver(t, m.class.ProviderSpec.Raw, `{"disablePreAllocatedDataVolumes":true}`)
		machines = append(machines, m)
	}

	createAll(t, d, machines)

	for _, m := range machines {
		m.awaitScheduled(t, d)
	}

	require.Len(t, s.images(t), 2, "one per zone, since the storage class is a part of the image")
	removeAll(t, d, machines)
	s.requireNothingLeft(t)
}

// makeZonalClass makes a storage class with the volumes of one zone, and returns its name.
func (s *shoot) makeZonalClass(t *testing.T, zone string) string {
	t.Helper()

	classes := s.kube.StorageV1().StorageClasses()
	class := &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: s.Name + "-" + zone}, Provisioner: dataplane.Provisioner,
		Parameters:           map[string]string{dataplane.ZonalParameter: "true"},
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

	s.describeStorage(t, class.Name)

	return class.Name
}

// describeStorage tells CDI what a storage class can do, as its administrator does for a driver that CDI does not know.
func (s *shoot) describeStorage(t *testing.T, class string) {
	t.Helper()

	eventually(t, "CDI has made a StorageProfile", func(ctx context.Context) (bool, error) {
		profile, err := s.cdi.CdiV1beta1().StorageProfiles().Get(ctx, class, metav1.GetOptions{})
		if err != nil {
			return false, nil //nolint:nilerr // It is not there yet.
		}

		profile.Spec.CloneStrategy = new(cdiv1beta1.CloneStrategyCsiClone)
		profile.Spec.ClaimPropertySets = []cdiv1beta1.ClaimPropertySet{{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, VolumeMode: new(corev1.PersistentVolumeBlock),
		}}
		_, err = s.cdi.CdiV1beta1().StorageProfiles().Update(ctx, profile, metav1.UpdateOptions{})

		return err == nil, nil
	})
}

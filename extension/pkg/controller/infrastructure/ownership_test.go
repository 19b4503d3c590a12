// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package infrastructure

import (
	"testing"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	providerspec "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/kubevirt"
)

const labelShootUID = "kubevirt.provider.extensions.gardener.cloud/shoot-uid"

// labelledFor are the labels of objects of a Shoot with this technical ID and a UID; empty for objects
// from before the label.
func labelledFor(uid string) map[string]string {
	labels := map[string]string{kubevirt.LabelShoot: technicalID}
	if uid != "" {
		labels[labelShootUID] = uid
	}

	return labels
}

// objectsOf returns an object of each kind, as the extension creates them for a shoot with all options.
func objectsOf(uid string) []client.Object {
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: technicalID, Name: name, Labels: labelledFor(uid)}
	}

	return []client.Object{
		network(technicalID, technicalID+"-a", bridge, labelledFor(uid)),
		&networkingv1.NetworkPolicy{ObjectMeta: meta(technicalID + "-isolation")},
		&corev1.Service{ObjectMeta: meta("load-balancer")},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: technicalID, Labels: labelledFor(uid)}},
	}
}

func allOptions() *api.InfrastructureConfig {
	all := config(tenant("a"))
	all.Isolation = &api.IsolationConfig{Enabled: true}
	all.Namespace = &api.NamespaceConfig{Create: true}

	return all
}

// TestReconcile_ForeignUID neither changes nor deletes objects of a Shoot of another landscape that has the same
// technical ID.
func TestReconcile_ForeignUID(t *testing.T) {
	t.Parallel()

	for i, object := range objectsOf("another") {
		l := newLandscape(t, allOptions(), object)
		l.provider.Namespace = technicalID

		if _, isService := object.(*corev1.Service); !isService { // cloud-controller-manager creates them.
			err := l.actuator.Reconcile(t.Context(), logr.Discard(), l.infra, l.cluster)
			require.ErrorContainsf(t, err, "belongs to another Shoot with the technical ID "+technicalID, "object %d", i)
			require.ErrorContains(t, err, "separate namespaces")
		}

		_ = l.actuator.Delete(t.Context(), logr.Discard(), l.infra, l.cluster) // It waits for the namespace.
		require.NoErrorf(t, l.provider.Get(t.Context(), client.ObjectKeyFromObject(object), object), "object %d remains", i)
		require.Nilf(t, object.GetDeletionTimestamp(), "object %d remains", i)
	}
}

// TestReconcile_UnlabelledObjects adopts objects that were created before the label existed.
// Namespaces are not labelled: the account is not allowed to update them.
func TestReconcile_UnlabelledObjects(t *testing.T) {
	t.Parallel()

	l := newLandscape(t, allOptions(), objectsOf("")...)
	l.provider.Namespace = technicalID
	l.reconcile(t)

	for _, object := range []client.Object{
		network(technicalID, technicalID+"-a", "", nil),
		&networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: technicalID, Name: technicalID + "-isolation"}},
	} {
		require.NoError(t, l.provider.Get(t.Context(), client.ObjectKeyFromObject(object), object))
		require.Equal(t, labelledFor(shootUID), object.GetLabels())
	}

	l.writes = 0
	l.reconcile(t)
	require.Zero(t, l.writes, "nothing has changed")

	require.ErrorContains(t, l.actuator.Delete(t.Context(), logr.Discard(), l.infra, l.cluster), "is being deleted")
	require.NoError(t, l.actuator.Delete(t.Context(), logr.Discard(), l.infra, l.cluster))
	require.Empty(t, l.networks(t))
}

// TestUsedNetworks_ForeignMachine deletes a network that only virtual machines of another landscape use, whose Shoot
// has the same technical ID.
func TestUsedNetworks_ForeignMachine(t *testing.T) {
	t.Parallel()

	for uid, kept := range map[string]bool{shootUID: true, "": true, "another": false} {
		machine := &kubevirtv1.VirtualMachine{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "m", Labels: map[string]string{providerspec.TagCluster: technicalID, labelShootUID: uid}},
			Spec: kubevirtv1.VirtualMachineSpec{Template: &kubevirtv1.VirtualMachineInstanceTemplateSpec{Spec: kubevirtv1.VirtualMachineInstanceSpec{
				Networks: []kubevirtv1.Network{{Name: "net", NetworkSource: kubevirtv1.NetworkSource{Multus: &kubevirtv1.MultusNetwork{NetworkName: technicalID + "-a"}}}},
			}}},
		}
		l := newLandscape(t, config(tenant("a")), machine)
		l.reconcile(t)

		l.configure(t, config())
		l.reconcile(t)
		require.Equalf(t, kept, len(l.networks(t)) == 1, "virtual machine with the UID %q", uid)
	}
}

// TestReconcile_LabelsNewObjects requires new objects to have the label.
func TestReconcile_LabelsNewObjects(t *testing.T) {
	t.Parallel()

	l := newLandscape(t, allOptions())
	l.provider.Namespace = technicalID
	l.reconcile(t)

	for _, object := range objectsOf("") {
		if _, isService := object.(*corev1.Service); isService {
			continue
		}

		require.NoError(t, l.provider.Get(t.Context(), client.ObjectKeyFromObject(object), object))
		require.Equal(t, shootUID, object.GetLabels()[labelShootUID])
	}
}

// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providercluster

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// TestWithMigratable reads the StorageProfile of the machine's storage class: without it, the driver evacuates the machine.
func TestWithMigratable(t *testing.T) {
	t.Parallel()

	profile := func(modes ...corev1.PersistentVolumeAccessMode) *cdiv1beta1.StorageProfile {
		return &cdiv1beta1.StorageProfile{
			TypeMeta: metav1.TypeMeta{APIVersion: cdiv1beta1.SchemeGroupVersion.String(), Kind: "StorageProfile"},
			Status:   cdiv1beta1.StorageProfileStatus{ClaimPropertySets: []cdiv1beta1.ClaimPropertySet{{AccessModes: modes}}},
		}
	}

	for name, tc := range map[string]struct {
		reason     string
		evacuation bool
		class      string
		code       int
		answer     any
		want       bool
		requests   int
	}{
		"Shared":    {reason: "KubeVirt can migrate it", evacuation: true, class: "nfs", code: http.StatusOK, answer: profile(corev1.ReadWriteMany), want: true, requests: 1},
		"NotShared": {reason: "its claim is on one node", evacuation: true, class: "local", code: http.StatusOK, answer: profile(corev1.ReadWriteOnce), requests: 1},
		"Absent":    {reason: "it is not known", evacuation: true, class: "nfs", code: http.StatusNotFound, answer: statusOf(http.StatusNotFound, metav1.StatusReasonNotFound), requests: 1},
		"Forbidden": {reason: "it is not known", evacuation: true, class: "nfs", code: http.StatusForbidden, answer: statusOf(http.StatusForbidden, metav1.StatusReasonForbidden), requests: 1},
		"Default":   {reason: "the driver may not read which class is the default", evacuation: true},
		"Disabled":  {reason: "without --evacuation, the strategy does not depend on it", class: "nfs"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			requests := 0

			p, kubeconfig := providerAt(t, func(w http.ResponseWriter, r *http.Request) {
				requests++

				assert.Equal(t, "/apis/cdi.kubevirt.io/v1beta1/storageprofiles/"+tc.class, r.URL.Path)
				answerWith(t, w, tc.code, tc.answer)
			})

			c, err := p.clients.For(kubeconfig)
			require.NoError(t, err)

			spec := &v1alpha1.ProviderSpec{Networks: []v1alpha1.Network{{Pod: &v1alpha1.PodNetwork{}, Masquerade: &kubevirtv1.InterfaceMasquerade{}}}}
			spec.RootVolume.Storage = &cdiv1beta1.StorageSpec{}

			if tc.class != "" {
				spec.RootVolume.Storage.StorageClassName = ptr.To(tc.class)
			}

			in := &spi.CreateMachineInput{Spec: spec, Evacuation: tc.evacuation}
			require.Equal(t, tc.want, withMigratable(t.Context(), c, in).Migratable, tc.reason)
			require.False(t, in.Migratable, "the caller's input is not changed")
			require.Equal(t, tc.requests, requests, tc.reason)
		})
	}
}

// TestCreateMachine_LiveMigrate creates a machine that KubeVirt evacuates.
func TestCreateMachine_LiveMigrate(t *testing.T) {
	t.Parallel()

	var created kubevirtv1.VirtualMachine

	p, kubeconfig := providerAt(t, func(w http.ResponseWriter, r *http.Request) {
		var object any = &corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}}

		if strings.HasSuffix(r.URL.Path, "/virtualmachines") {
			assert.NoError(t, json.NewDecoder(r.Body).Decode(&created))

			object = &created
		}

		answerWith(t, w, http.StatusCreated, object)
	})

	_, err := p.CreateMachine(t.Context(), &spi.CreateMachineInput{
		Kubeconfig: kubeconfig,
		Name:       "m",
		Evacuation: true,
		Spec: &v1alpha1.ProviderSpec{
			Tags:       map[string]string{v1alpha1.TagCluster: "c", v1alpha1.TagRole: "node"},
			Networks:   []v1alpha1.Network{{Pod: &v1alpha1.PodNetwork{}, Masquerade: &kubevirtv1.InterfaceMasquerade{}}},
			RootVolume: v1alpha1.RootVolume{ContainerDisk: &kubevirtv1.ContainerDiskSource{Image: "registry.example.com/os:1"}},
		},
	})
	require.NoError(t, err)
	require.Equal(t, kubevirtv1.EvictionStrategyLiveMigrate, *created.Spec.Template.Spec.EvictionStrategy)
}

// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package validator

import (
	"testing"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	securityv1alpha1 "github.com/gardener/gardener/pkg/apis/security/v1alpha1"
	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	providerspec "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	providervalidation "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1/validation"
)

// TestMachineClasses renders the classes of the example, and requires the errors of the webhook.
func TestMachineClasses(t *testing.T) {
	t.Parallel()

	binding := &securityv1alpha1.CredentialsBinding{}
	example(t, "50-credentialsbinding.yaml", binding)

	tests := map[string]struct {
		reason string
		change func(*gardencorev1beta1.Shoot, *gardencorev1beta1.CloudProfile)
		// want is the expected error; empty if there is none.
		want string
	}{
		"Example": {reason: "it is complete", change: func(*gardencorev1beta1.Shoot, *gardencorev1beta1.CloudProfile) {}},
		"Image": {"the webhook refuses it", func(s *gardencorev1beta1.Shoot, _ *gardencorev1beta1.CloudProfile) {
			s.Spec.Provider.Workers[0].Machine.Image.Version = new("1.0.0")
		}, "spec.provider.workers[0].machine.image"},
		"CloudProfile": {"it has no such field", func(_ *gardencorev1beta1.Shoot, p *gardencorev1beta1.CloudProfile) {
			p.Spec.ProviderConfig = edited(t, p.Spec.ProviderConfig, "machineImages", "images")
		}, "providerConfig"},
		"Binding": {"it is not among the files", func(s *gardencorev1beta1.Shoot, _ *gardencorev1beta1.CloudProfile) {
			s.Spec.CredentialsBindingName = new("other")
		}, "spec.credentialsBindingName"},
		"NoBinding": {"the class needs the credentials", func(s *gardencorev1beta1.Shoot, _ *gardencorev1beta1.CloudProfile) {
			s.Spec.CredentialsBindingName = nil
		}, "spec.credentialsBindingName"},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			shoot := exampleShoot(t)
			profile := exampleProfile(t)
			tc.change(shoot, profile)

			objects, err := MachineClasses(t.Context(), gardenAndSecurity(t, profile, binding), shoot)
			if tc.want != "" {
				require.ErrorContains(t, err, tc.want, tc.reason)

				return
			}

			require.NoError(t, err, tc.reason)
			require.Len(t, objects, 2, "a class and its Secret for the only zone")

			class, ok := objects[0].(*machinev1alpha1.MachineClass)
			require.True(t, ok)
			require.Equal(t, "shoot--project--name-cpu-worker-z1", class.Name)
			require.Equal(t, objects[1].GetName(), class.SecretRef.Name)
			require.Equal(t, "core-kubevirt", class.CredentialsSecretRef.Name)

			spec, errs := providervalidation.Decode(class.ProviderSpec.Raw, providervalidation.Options{Template: providervalidation.TemplateSafe})
			require.Empty(t, errs, "the driver accepts it")
			require.Equal(t, "europe-west1-c", spec.Zone)
			require.Equal(t, []providerspec.Network{{Name: "default/net-conf"}}, spec.Networks, "the tenant network does not exist yet")
		})
	}
}

func gardenAndSecurity(t *testing.T, objects ...client.Object) client.Reader {
	t.Helper()

	s := runtime.NewScheme()
	require.NoError(t, gardencorev1beta1.AddToScheme(s))
	require.NoError(t, securityv1alpha1.AddToScheme(s))

	return fake.NewClientBuilder().WithScheme(s).WithObjects(objects...).Build()
}

// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package validator

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/yaml"
)

// example reads a manifest of the documentation.
func example(t testing.TB, name string, into any) {
	t.Helper()

	content, err := os.ReadFile(filepath.Join("..", "..", "..", "example", name))
	require.NoError(t, err)
	require.NoError(t, yaml.UnmarshalStrict(content, into))
}

func exampleProfile(t testing.TB) *gardencorev1beta1.CloudProfile {
	t.Helper()

	profile := &gardencorev1beta1.CloudProfile{}
	example(t, "30-cloudprofile.yaml", profile)

	return profile
}

func exampleShoot(t testing.TB) *gardencorev1beta1.Shoot {
	t.Helper()

	shoot := &gardencorev1beta1.Shoot{}
	example(t, "90-shoot.yaml", shoot)

	return shoot
}

// gardenWith returns a client of a garden with objects.
func gardenWith(t testing.TB, objects ...client.Object) client.Client {
	t.Helper()

	scheme, err := scheme()
	require.NoError(t, err)

	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
}

func scheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()

	return s, gardencorev1beta1.AddToScheme(s)
}

// edited returns the raw JSON with one text replaced.
func edited(t testing.TB, raw *runtime.RawExtension, old, text string) *runtime.RawExtension {
	t.Helper()
	require.Contains(t, string(raw.Raw), old)

	return &runtime.RawExtension{Raw: []byte(strings.Replace(string(raw.Raw), old, text, 1))}
}

// TestShootValidator_OnlyNewErrors changes Shoots that an older version accepted.
func TestShootValidator_OnlyNewErrors(t *testing.T) {
	t.Parallel()

	shoot := exampleShoot(t)
	profile := exampleProfile(t)
	broken := shoot.Spec.Provider.Workers[0].DeepCopy()
	broken.Name, broken.ProviderConfig = "broken", edited(t, broken.ProviderConfig, `"rng":`, `"random":`)
	shoot.Spec.Provider.Workers = append(shoot.Spec.Provider.Workers, *broken)

	tests := map[string]struct {
		reason string
		change func(*gardencorev1beta1.Shoot)
		want   []string // the fields of the errors
	}{
		"Maximum": {
			reason: "a correct change is possible in spite of an old error",
			change: func(s *gardencorev1beta1.Shoot) { s.Spec.Provider.Workers[0].Maximum++ },
		},
		"NewError": {
			reason: "only the new error is reported",
			change: func(s *gardencorev1beta1.Shoot) {
				s.Spec.Provider.InfrastructureConfig = edited(t, s.Spec.Provider.InfrastructureConfig, `"sharedNetworks"`, `"shared"`)
			},
			want: []string{"spec.provider.infrastructureConfig.networks.shared"},
		},
		"NewPool": {
			reason: "a pool with the same mistake at another place is new",
			change: func(s *gardencorev1beta1.Shoot) {
				s.Spec.Provider.Workers = append(s.Spec.Provider.Workers, *s.Spec.Provider.Workers[1].DeepCopy())
			},
			want: []string{"spec.provider.workers[2].providerConfig.devices.random"},
		},
		"Deleted": {
			reason: "an old error that moves is not new",
			change: func(s *gardencorev1beta1.Shoot) { s.Spec.Provider.Workers = s.Spec.Provider.Workers[1:] },
		},
		"Inserted": {
			reason: "a correct pool in front of one with an old error",
			change: func(s *gardencorev1beta1.Shoot) {
				s.Spec.Provider.Workers = append([]gardencorev1beta1.Worker{*exampleShoot(t).Spec.Provider.Workers[0].DeepCopy()}, s.Spec.Provider.Workers...)
			},
		},
		"BehindOldError": {
			reason: "an old error does not hide others",
			change: func(s *gardencorev1beta1.Shoot) {
				s.Spec.Provider.Workers[1].ProviderConfig = edited(t, s.Spec.Provider.Workers[1].ProviderConfig, `"1Gi"`, `"64Gi"`)
			},
			want: []string{"spec.provider.workers[1].providerConfig.memory.guest"},
		},
		"OtherCloudProfile": {
			reason: "what the new CloudProfile lacks is new, although the pool did not change",
			change: func(s *gardencorev1beta1.Shoot) { s.Spec.CloudProfile.Name = "empty" },
			want: []string{
				"spec.provider.workers[0].machine.type", "spec.provider.workers[0].volume.type", "spec.provider.workers[0].dataVolumes[0].type",
				"spec.provider.workers[1].machine.type", "spec.provider.workers[1].volume.type", "spec.provider.workers[1].dataVolumes[0].type",
			},
		},
		"Deletion": {
			reason: "a Shoot can always be deleted",
			change: func(s *gardencorev1beta1.Shoot) {
				s.DeletionTimestamp = &metav1.Time{}
				s.Spec.Provider.Workers[0].ProviderConfig = &runtime.RawExtension{Raw: []byte("[]")}
			},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			empty := &gardencorev1beta1.CloudProfile{ObjectMeta: metav1.ObjectMeta{Name: "empty"}}
			changed := shoot.DeepCopy()
			tc.change(changed)

			err := (&shootValidator{garden: gardenWith(t, profile.DeepCopy(), empty)}).Validate(t.Context(), changed, shoot.DeepCopy())
			requireFields(t, err, tc.want, tc.reason)
		})
	}
}

// requireFields requires one error for each field, and no others.
func requireFields(t *testing.T, err error, want []string, reason string) {
	t.Helper()

	if len(want) == 0 {
		require.NoError(t, err, reason)

		return
	}

	require.Error(t, err, reason)

	for _, field := range want {
		require.ErrorContains(t, err, field+": ", reason)
	}

	if len(want) == 1 {
		require.NotContains(t, err.Error(), ", spec.", reason)
	} else {
		require.Equal(t, len(want)-1, strings.Count(err.Error(), ", spec."), err.Error())
	}
}

// TestShootValidator_ImageInUse keeps an image usable for a pool that has it when the CloudProfile no longer offers it.
func TestShootValidator_ImageInUse(t *testing.T) {
	t.Parallel()

	profile := exampleProfile(t)
	shoot := exampleShoot(t)
	profile.Spec.ProviderConfig = edited(t, profile.Spec.ProviderConfig, `"18.4.20210415"`, `"18.4.99999999"`)
	validator := &shootValidator{garden: gardenWith(t, profile)}

	changed := shoot.DeepCopy()
	changed.Spec.Provider.Workers[0].Maximum++
	require.NoError(t, validator.Validate(t.Context(), changed, shoot))

	require.ErrorContains(t, validator.Validate(t.Context(), shoot, nil), "spec.provider.workers[0].machine.image: ", "a new Shoot cannot use it")

	another := changed.DeepCopy()
	another.Spec.Provider.Workers[0].Machine.Image.Version = ptr.To("0.1")
	require.ErrorContains(t, validator.Validate(t.Context(), another, shoot), "spec.provider.workers[0].machine.image: ")
}

// TestShootValidator_Workerless accepts Shoots without workers, and Shoots that did not change, without a request.
func TestShootValidator_Workerless(t *testing.T) {
	t.Parallel()

	shoot := exampleShoot(t)
	require.NoError(t, (&shootValidator{}).Validate(t.Context(), shoot.DeepCopy(), shoot))

	shoot.Spec.Provider.Workers = nil
	require.NoError(t, (&shootValidator{}).Validate(t.Context(), shoot, nil))
}

// TestCloudProfileValidator_Capabilities validates images of a CloudProfile with capabilities.
func TestCloudProfileValidator_Capabilities(t *testing.T) {
	t.Parallel()

	const twoFlavors = `[{"sourceURL": "https://example.com/uefi", "capabilities": {"architecture": ["amd64"], "firmware": ["uefi"]}},
		{"sourceURL": "https://example.com/bios", "capabilities": {"architecture": ["amd64"], "firmware": ["bios"]}}]`

	tests := map[string]struct {
		reason, flavors string
		want            []string
	}{
		"All":     {reason: "each flavor of spec.machineImages has a source", flavors: twoFlavors},
		"Missing": {reason: "machines with BIOS would have no image", flavors: `[{"sourceURL": "https://example.com/uefi", "capabilities": {"architecture": ["amd64"], "firmware": ["uefi"]}}]`, want: []string{"spec.providerConfig.machineImages"}},
		"Unknown": {
			reason:  "a capability that the CloudProfile does not define",
			flavors: strings.Replace(twoFlavors, `"firmware": ["uefi"]`, `"firmware": ["uefi"], "tpm": ["2"]`, 1),
			want:    []string{"spec.providerConfig.machineImages[0].versions[0].capabilityFlavors[0].capabilities"},
		},
		"Twice": {
			reason:  "which of the two sources would be used?",
			flavors: strings.Replace(twoFlavors, `["bios"]`, `["uefi"]`, 1),
			want:    []string{"spec.providerConfig.machineImages[0].versions[0].capabilityFlavors[1].capabilities", "spec.providerConfig.machineImages"},
		},
		"Source": {
			reason:  "which of the sources would be used?",
			flavors: twoFlavors + `, "sourceURL": "https://example.com/uefi"`,
			want:    []string{"spec.providerConfig.machineImages[0].versions[0].sourceURL"},
		},
		"Empty": {reason: "a flavor needs a source too", flavors: twoFlavors[:len(twoFlavors)-1] + `, {"capabilities": {"architecture": ["arm64"]}}]`, want: []string{"spec.providerConfig.machineImages[0].versions[0].capabilityFlavors[2].sourceURL"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			profile := exampleProfile(t)
			profile.Spec.MachineCapabilities = []gardencorev1beta1.CapabilityDefinition{
				{Name: "architecture", Values: []string{"amd64", "arm64"}}, {Name: "firmware", Values: []string{"uefi", "bios"}},
			}
			profile.Spec.MachineImages[0].Versions = profile.Spec.MachineImages[0].Versions[:1]
			profile.Spec.MachineImages[0].Versions[0].CapabilityFlavors = []gardencorev1beta1.MachineImageFlavor{
				{Capabilities: gardencorev1beta1.Capabilities{"architecture": {"amd64"}, "firmware": {"uefi"}}},
				{Capabilities: gardencorev1beta1.Capabilities{"architecture": {"amd64"}, "firmware": {"bios"}}},
			}
			profile.Spec.ProviderConfig = &runtime.RawExtension{Raw: []byte(`{"apiVersion": "kubevirt.provider.extensions.gardener.cloud/v1alpha1", "kind": "CloudProfileConfig",
				"machineImages": [{"name": "ubuntu", "versions": [{"version": "18.4.20210415", "capabilityFlavors": ` + tc.flavors + `}]}]}`)}

			requireFields(t, (&cloudProfileValidator{}).Validate(t.Context(), profile, nil), tc.want, tc.reason)
		})
	}
}

// TestNamespacedCloudProfileValidator_Formats validates NamespacedCloudProfiles in both formats of architectures.
func TestNamespacedCloudProfileValidator_Formats(t *testing.T) {
	t.Parallel()

	const source = `"machineImages": [{"name": "ubuntu", "versions": [{"version": "24.4.0", "sourceURL": "https://example.com/a", "architecture": "arm64"}]}]`

	arm64 := gardencorev1beta1.MachineImageFlavor{Capabilities: gardencorev1beta1.Capabilities{"architecture": {"arm64"}}}
	version := func(name string, change func(*gardencorev1beta1.MachineImageVersion)) gardencorev1beta1.MachineImageVersion {
		v := gardencorev1beta1.MachineImageVersion{ExpirableVersion: gardencorev1beta1.ExpirableVersion{Version: name}}
		change(&v)

		return v
	}

	tests := map[string]struct {
		reason       string
		capabilities bool
		version      gardencorev1beta1.MachineImageVersion
		config       string
	}{
		"Expiration": {
			reason: "the project extends the expiration of a version of the CloudProfile",
			version: version("18.4.20210415", func(v *gardencorev1beta1.MachineImageVersion) {
				v.ExpirationDate = &metav1.Time{} //nolint:staticcheck // deprecated, but still in use
			}),
		},
		"Architectures": {
			reason:       "a CloudProfile with capabilities, a project with architectures",
			capabilities: true,
			config:       source,
			version:      version("24.4.0", func(v *gardencorev1beta1.MachineImageVersion) { v.Architectures = []string{"arm64"} }),
		},
		"Flavors": {
			reason: "a CloudProfile without capabilities, a project with flavors",
			config: source,
			version: version("24.4.0", func(v *gardencorev1beta1.MachineImageVersion) {
				v.CapabilityFlavors = []gardencorev1beta1.MachineImageFlavor{arm64}
			}),
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			parent := exampleProfile(t)
			parent.Spec.MachineImages[0].Versions[0].Architectures = []string{"arm64"}

			if tc.capabilities {
				parent.Spec.MachineCapabilities = []gardencorev1beta1.CapabilityDefinition{{Name: "architecture", Values: []string{"amd64", "arm64"}}}
			}

			project := &gardencorev1beta1.NamespacedCloudProfile{Spec: gardencorev1beta1.NamespacedCloudProfileSpec{
				Parent:        gardencorev1beta1.CloudProfileReference{Kind: "CloudProfile", Name: parent.Name},
				MachineImages: []gardencorev1beta1.MachineImage{{Name: "ubuntu", Versions: []gardencorev1beta1.MachineImageVersion{tc.version}}},
			}}
			if tc.config != "" {
				project.Spec.ProviderConfig = &runtime.RawExtension{Raw: []byte(`{"apiVersion": "kubevirt.provider.extensions.gardener.cloud/v1alpha1", "kind": "CloudProfileConfig", ` + tc.config + `}`)}
			}

			validator := &namespacedCloudProfileValidator{garden: gardenWith(t, parent)}
			require.NoError(t, validator.Validate(t.Context(), project, nil), tc.reason)

			project.Spec.ProviderConfig = nil
			if tc.config != "" {
				require.ErrorContains(t, validator.Validate(t.Context(), project, nil), "for architecture arm64", "without the source")
			}
		})
	}
}

// TestCloudProfileValidator_ManyVersions bounds the time of a validation.
func TestCloudProfileValidator_ManyVersions(t *testing.T) {
	t.Parallel()

	profile := exampleProfile(t)
	raw := `{"apiVersion": "kubevirt.provider.extensions.gardener.cloud/v1alpha1", "kind": "CloudProfileConfig", "machineImages": [{"name": "ubuntu", "versions": [` +
		strings.TrimSuffix(strings.Repeat(`{"version": "1", "sourceURL": "https://example.com/a"},`, maxVersions+1), ",") + `]}]}`
	profile.Spec.ProviderConfig = &runtime.RawExtension{Raw: []byte(raw)}

	require.ErrorContains(t, (&cloudProfileValidator{}).Validate(t.Context(), profile, nil), "must have at most 1000 items")
}

// FuzzShootValidator validates Shoots and CloudProfiles with arbitrary configurations: no input makes the webhook
// panic, and each error names a field.
func FuzzShootValidator(f *testing.F) {
	manifest := exampleShoot(f)
	profile := exampleProfile(f)
	provider := manifest.Spec.Provider

	f.Add(provider.InfrastructureConfig.Raw, provider.ControlPlaneConfig.Raw, provider.Workers[0].ProviderConfig.Raw, profile.Spec.ProviderConfig.Raw)
	f.Add([]byte("{}"), []byte("{}"), []byte(`{"dnsPolicy":"None","cpu":{"cores":0},"virtualMachineTemplate":{"spec":{"template":{"spec":{"hostname":"a"}}}}}`),
		[]byte(`{"machineTypes":[{"name":"standard-1","gpus":[{"name":"a"}],"hostDevices":[{"name":"a","deviceName":"b"},{}],"instancetype":{"name":"a","kind":"b"},"preference":{"kind":"b"}}],"machineImages":[{"name":"ubuntu","versions":[{"version":"18.4.20210415","containerDisk":{},"size":"0","cloudInit":{"type":"b"}}]}]}`))
	f.Add([]byte("null"), []byte("[]"), []byte(`{"memory":{"guest":"1234567890123456789012e2000000000"}}`), []byte(`{"machineImages":[{}]}`))

	f.Fuzz(func(t *testing.T, infrastructure, controlPlane, worker, cloudProfile []byte) {
		for _, raw := range [][]byte{infrastructure, controlPlane, worker, cloudProfile} {
			if !json.Valid(raw) {
				return // The API server accepts only JSON.
			}
		}

		profile := profile.DeepCopy()
		shoot := manifest.DeepCopy()
		profile.Spec.ProviderConfig = &runtime.RawExtension{Raw: cloudProfile}
		shoot.Spec.Provider.InfrastructureConfig = &runtime.RawExtension{Raw: infrastructure}
		shoot.Spec.Provider.ControlPlaneConfig = &runtime.RawExtension{Raw: controlPlane}
		shoot.Spec.Provider.Workers[0].ProviderConfig = &runtime.RawExtension{Raw: worker}

		for _, err := range validateCloudProfile(&profile.Spec) {
			require.True(t, strings.HasPrefix(err.Field, "spec."), err.Error())
		}

		for _, err := range newValidationContext(shoot, &profile.Spec).validate(t.Context()) {
			require.True(t, strings.HasPrefix(err.Field, "spec.") || strings.HasPrefix(err.Field, "CloudProfile."), err.Error())
		}
	})
}

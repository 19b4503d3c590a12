// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package validator

import (
	"strings"
	"testing"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	securityv1alpha1 "github.com/gardener/gardener/pkg/apis/security/v1alpha1"
	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
)

// profileWith returns the example CloudProfile with another field of its configuration, in JSON, or as it is.
func profileWith(t *testing.T, field string) *gardencorev1beta1.CloudProfile {
	t.Helper()

	profile := exampleProfile(t)
	if field != "" {
		profile.Spec.ProviderConfig = edited(t, profile.Spec.ProviderConfig, `"machineImages":`, field+`,"machineImages":`)
	}

	return profile
}

// shootInNetworks returns the example Shoot with other networks, and a pool with a template, both in JSON.
func shootInNetworks(t *testing.T, networks, template string) *gardencorev1beta1.Shoot {
	t.Helper()

	shoot := exampleShoot(t)
	shoot.Spec.Networking = &gardencorev1beta1.Networking{Nodes: ptr.To("10.1.0.0/16")}
	shoot.Spec.Provider.InfrastructureConfig = infrastructure(networks)
	shoot.Spec.Provider.Workers = shoot.Spec.Provider.Workers[:1]

	if template != "" {
		shoot.Spec.Provider.Workers[0].ProviderConfig = &runtime.RawExtension{Raw: []byte(
			`{"apiVersion": "kubevirt.provider.extensions.gardener.cloud/v1alpha1", "kind": "WorkerConfig", "virtualMachineTemplate": {"spec": {"template": ` + template + `}}}`)}
	}

	return shoot
}

const liveMigrate = `{"spec": {"evictionStrategy": "LiveMigrate"}}`

// TestShootValidator_PodNetwork knows the binding of the pod network, by which a pool can be migrated or not. The default of
// the CloudProfile may be that of an existing Shoot, too.
func TestShootValidator_PodNetwork(t *testing.T) {
	t.Parallel()

	const byDefault = `"podNetwork": {"binding": "masquerade"}`

	for name, tc := range map[string]struct {
		reason, networks, field string
		existing, refused       bool
	}{
		"Bridge":            {reason: "a bridge cannot be migrated", refused: true},
		"ExistingBridge":    {reason: "a bridge cannot be migrated", existing: true, refused: true},
		"Masquerade":        {reason: "the Shoot has it", networks: `"pod": {"binding": "masquerade"}`},
		"Default":           {reason: "the CloudProfile has it", field: byDefault},
		"ExistingDefault":   {reason: "the Shoot may have it", field: byDefault, existing: true},
		"BridgeWithDefault": {reason: "the Shoot does not have the default", field: byDefault, networks: `"pod": {"binding": "bridge"}`, refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			v := &shootValidator{garden: gardenWith(t, profileWith(t, tc.field))}
			shoot := shootInNetworks(t, tc.networks, liveMigrate)

			var err error
			if tc.existing {
				err = v.Validate(t.Context(), shoot, shootInNetworks(t, tc.networks, ""))
			} else {
				err = v.Validate(t.Context(), shoot, nil)
			}

			if !tc.refused {
				require.NoError(t, err, tc.reason)

				return
			}

			require.ErrorContains(t, err, "connects the machine to the pod network by a bridge; set networks.pod.binding", tc.reason)
		})
	}
}

// TestShootValidator_MasqueradeDefault compares the guests' network of the CloudProfile's default with the nodes.
func TestShootValidator_MasqueradeDefault(t *testing.T) {
	t.Parallel()

	v := &shootValidator{garden: gardenWith(t, profileWith(t, `"podNetwork": {"binding": "masquerade"}`))}
	shoot := shootInNetworks(t, "", "")
	shoot.Spec.Networking.Nodes = ptr.To("10.0.0.0/16")
	require.ErrorContains(t, v.Validate(t.Context(), shoot, nil), "10.0.2.0/24 must not overlap with spec.networking.nodes")

	changed := shoot.DeepCopy()
	changed.Spec.Provider.Workers[0].Maximum++
	require.NoError(t, v.Validate(t.Context(), changed, shoot), "a Shoot with a bridge, from before the default")
}

// TestMachineClasses_PodNetwork renders the binding of the pod network.
func TestMachineClasses_PodNetwork(t *testing.T) {
	t.Parallel()

	binding := &securityv1alpha1.CredentialsBinding{}
	example(t, "50-credentialsbinding.yaml", binding)

	objects, err := MachineClasses(t.Context(), gardenAndSecurity(t, exampleProfile(t), binding), shootInNetworks(t, `"pod": {"binding": "masquerade"}`, ""))
	require.NoError(t, err)
	require.Contains(t, string(objects[0].(*machinev1alpha1.MachineClass).ProviderSpec.Raw), `"masquerade":{}`)
}

// TestShootValidator_TenantNetworks refuses other ranges, and new networks that the CloudProfile does not allow.
func TestShootValidator_TenantNetworks(t *testing.T) {
	t.Parallel()

	const (
		ovn   = `"tenantNetworks": [{"name": "a", "ovn": {"cidr": "10.110.0.0/16"}}]`
		cni   = `"tenantNetworks": [{"name": "a", "config": "{\"type\": \"bridge\"}"}]`
		other = `"tenantNetworks": [{"name": "a", "config": "{\"type\": \"macvlan\"}"}]`
		named = `"tenantNetworks": [{"name": "a", "config": "{\"type\": \"kube-ovn\"}"}]`
		moved = `"tenantNetworks": [{"name": "a", "ovn": {"cidr": "10.120.0.0/16"}}]`
		none  = `"tenantNetworks": []`
	)

	for name, tc := range map[string]struct {
		reason, field, old, networks string
		want                         string
	}{
		"New":             {reason: "all types are allowed", networks: ovn},
		"NotAllowed":      {reason: "the CloudProfile allows none", field: none, networks: ovn, want: "does not allow tenant networks with ovn"},
		"AllowedType":     {reason: "the CloudProfile allows it", field: `"tenantNetworks": ["ovn"]`, networks: ovn},
		"Existing":        {reason: "an existing network can stay", field: none, old: cni, networks: cni},
		"ExistingChanged": {reason: "its content cannot change", field: none, old: cni, networks: other, want: "does not allow tenant networks with config"},
		"Added":           {reason: "it is new", field: none, old: " ", networks: cni, want: "does not allow tenant networks with config"},
		"Range":           {reason: "network plugins cannot change it", old: ovn, networks: moved, want: "the type and the range of a network cannot be changed"},
		"Type":            {reason: "it would have another range", old: cni, networks: ovn, want: "the type and the range of a network cannot be changed"},
		"ByName":          {reason: "it reaches each network", networks: named, want: "can name the networks of other shoots"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			v := &shootValidator{garden: gardenWith(t, profileWith(t, tc.field))}

			var err error
			if tc.old != "" {
				changed := shootInNetworks(t, tc.networks, "")
				changed.Spec.Provider.Workers[0].Maximum++
				err = v.Validate(t.Context(), changed, shootInNetworks(t, tc.old, ""))
			} else {
				err = v.Validate(t.Context(), shootInNetworks(t, tc.networks, ""), nil)
			}

			if tc.want == "" {
				require.NoError(t, err, tc.reason)

				return
			}

			require.ErrorContains(t, err, tc.want, tc.reason)
			require.ErrorContains(t, err, "networks.tenantNetworks[0]", tc.reason)
		})
	}
}

// TestShootValidator_Annotations refuses annotations that connect machines to a network of another shoot, except for those
// that a Shoot has.
func TestShootValidator_Annotations(t *testing.T) {
	t.Parallel()

	annotated := func(of string) *gardencorev1beta1.Shoot {
		return shootInNetworks(t, "", `{"metadata": {"annotations": {"ovn.kubernetes.io/logical_switch": "`+of+`"}}}`)
	}

	v := &shootValidator{garden: gardenWith(t, exampleProfile(t))}
	require.ErrorContains(t, v.Validate(t.Context(), annotated("own"), nil), "annotations[ovn.kubernetes.io/logical_switch]")

	changed := annotated("own")
	changed.Spec.Provider.Workers[0].Maximum++
	require.NoError(t, v.Validate(t.Context(), changed, annotated("own")))
	require.ErrorContains(t, v.Validate(t.Context(), annotated("shoot--bank--prod-storage"), annotated("own")), "use infrastructureConfig.networks")
}

// TestValidateCloudProfile_Offers validates networks and bastions that only a CloudProfile, and no project, can offer.
func TestValidateCloudProfile_Offers(t *testing.T) {
	t.Parallel()

	v := &cloudProfileValidator{}

	for field, valid := range map[string]bool{
		`"tenantNetworks": ["ovn", "config"]`: true, `"tenantNetworks": ["vlan"]`: false,
		`"podNetwork": {"binding": "passt"}`: true, `"podNetwork": {"binding": "L2 bridge"}`: false,
		`"bastion": {"containerDisk": {"image": "a"}}`: true, `"bastion": {"containerDisk": {}}`: false,
	} {
		profile := profileWith(t, field)
		require.Equal(t, valid, v.Validate(t.Context(), profile, nil) == nil, field)

		own := &gardencorev1beta1.NamespacedCloudProfile{
			Spec: gardencorev1beta1.NamespacedCloudProfileSpec{
				Parent:         gardencorev1beta1.CloudProfileReference{Kind: "CloudProfile", Name: "kubevirt"},
				ProviderConfig: profile.Spec.ProviderConfig,
			},
		}
		err := (&namespacedCloudProfileValidator{garden: gardenWith(t, exampleProfile(t))}).Validate(t.Context(), own, nil)

		name, _, _ := strings.Cut(field[1:], `"`)
		require.ErrorContains(t, err, "spec.providerConfig."+name+": Forbidden: only a CloudProfile can have it", field)
	}
}

// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
)

func TestValidateHardware(t *testing.T) {
	t.Parallel()

	const claim = "resourceClaims: [{name: gpu, resourceClaimTemplateName: a100}]\n"

	for name, tc := range map[string]struct {
		reason, config string
		want           []string
	}{
		"None":         {reason: "most machine types have no devices"},
		"Plugins":      {reason: "device plugins need no claim", config: "gpus: [{name: a, deviceName: example.com/gpu}]\nhostDevices: [{name: b, deviceName: example.com/nic}]"},
		"Claim":        {reason: "the device comes from a claim", config: claim + "gpus: [{name: a, claimName: gpu, requestName: one}]"},
		"HostDevice":   {reason: "likewise", config: claim + "hostDevices: [{name: a, claimName: gpu, requestName: one}]"},
		"Names":        {reason: "they are objects of the provider cluster", config: "instancetype: {name: u1.large}\npreference: {name: fedora}"},
		"Inferred":     {reason: "an image would choose it", config: "instancetype: {inferFromVolume: root-disk}", want: []string{"type.instancetype.inferFromVolume: Forbidden"}},
		"InferredToo":  {reason: "likewise", config: "preference: {name: fedora, inferFromVolume: root-disk}", want: []string{"type.preference.inferFromVolume: Forbidden"}},
		"Revision":     {reason: "it may be of another instance type", config: "instancetype: {name: u1.large, revisionName: any}", want: []string{"type.instancetype.revisionName: Forbidden"}},
		"RevisionToo":  {reason: "likewise", config: "preference: {name: fedora, revisionName: any}", want: []string{"type.preference.revisionName: Forbidden"}},
		"Unnamed":      {reason: "KubeVirt would refuse the machine", config: "instancetype: {kind: VirtualMachineInstancetype}", want: []string{"type.instancetype.name: Required"}},
		"Nothing":      {reason: "KubeVirt would not start the machine", config: "gpus: [{name: a}]", want: []string{"type.gpus[0].deviceName: Required"}},
		"Both":         {reason: "only one of them has the device", config: claim + "gpus: [{name: a, deviceName: b/c, claimName: gpu, requestName: one}]", want: []string{"type.gpus[0].deviceName: Forbidden"}},
		"NoRequest":    {reason: "a claim may have several requests", config: claim + "gpus: [{name: a, claimName: gpu}]", want: []string{"type.gpus[0].requestName: Required"}},
		"UnknownClaim": {reason: "there is no such claim", config: "hostDevices: [{name: a, claimName: gpu, requestName: one}]", want: []string{"type.hostDevices[0].claimName: Invalid"}},
		"UnusedClaim":  {reason: "a device would be reserved for nothing", config: claim, want: []string{"type.resourceClaims[0].name: Invalid"}},
		"Duplicate": {
			reason: "names are unique", config: "resourceClaims: [{name: gpu, resourceClaimTemplateName: a}, {name: gpu, resourceClaimTemplateName: b}]\ngpus: [{name: a, claimName: gpu, requestName: one}]",
			want: []string{"type.resourceClaims[1].name: Duplicate"},
		},
		"NoTemplate": {
			reason: "machines cannot share a claim", config: "resourceClaims: [{name: gpu}]\ngpus: [{name: a, claimName: gpu, requestName: one}]",
			want: []string{"type.resourceClaims[0].resourceClaimTemplateName: Required"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			machineType := &api.MachineType{}
			require.NoError(t, yaml.UnmarshalStrict([]byte(tc.config), machineType))

			errs := ValidateHardware(machineType, field.NewPath("type"))
			require.Len(t, errs, len(tc.want), tc.reason)

			for i, want := range tc.want {
				require.ErrorContains(t, errs[i], want, tc.reason)
			}
		})
	}
}

// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"cmp"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/render"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// TestSecrets_NetworkData has machines with one interface, whose guests have a network without network
// data, too.
func TestSecrets_NetworkData(t *testing.T) {
	t.Parallel()

	// generated has DHCPv4 alone, as cloud-init's own default has it up to cloud-init 23.4: until then, its
	// renderer for NetworkManager requires both protocols if both are set, and ifupdown waits for a server
	// for DHCPv6.
	const generated = `version: 2
ethernets:
  enp1s0:
    match:
      name: "e*"
    dhcp4: true
  eth0:
    optional: true
    dhcp4: true
`

	tests := map[string]struct {
		reason, spec string
		architecture string // by default, amd64
		want         string
	}{
		"Default":       {reason: "another MAC address at each start", spec: `{}`, want: generated},
		"ARM":           {reason: "it has PCI, too", spec: `{}`, architecture: "arm64", want: generated},
		"PCIExpress":    {reason: "it is the first on the bus", spec: `{"networks":[{"pod":{},"model":"e1000e"}]}`, want: generated},
		"ContainerDisk": {reason: "it is never restarted", spec: `{"rootVolume":{"containerDisk":{"image":"i"}}}`},
		"Masquerade":    {reason: "its MAC address is stable", spec: `{"networks":[{"pod":{},"masquerade":{}}]}`},
		"Passt":         {reason: "its MAC address is stable", spec: `{"networks":[{"pod":{},"passtBinding":{}}]}`},
		"SRIOV":         {reason: "it is a host device", spec: `{"networks":[{"name":"n","default":true,"sriov":{}}]}`},
		"PCI":           {reason: "it is behind a bridge", spec: `{"networks":[{"pod":{},"model":"rtl8139"}]}`},
		"S390X":         {reason: "it has no PCI", spec: `{}`, architecture: "s390x"},
		"Transitional":  {reason: "it is behind a bridge", spec: inTemplate(`{"spec":{"domain":{"devices":{"useVirtioTransitional":true}}}}`)},
		"RootComplex":   {reason: "it is on bus 0", spec: inTemplate(`{"metadata":{"annotations":{"kubevirt.io/placePCIDevicesOnRootComplex":"true"}}}`)},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			spec, errs := v1alpha1.Decode([]byte(tc.spec), field.NewPath("providerSpec"))
			require.Empty(t, errs)

			spec.Tags = map[string]string{v1alpha1.TagRole: "node"}
			secrets := render.Secrets(&spi.CreateMachineInput{Name: "m", Architecture: cmp.Or(tc.architecture, "amd64"), Spec: spec}, "machines")
			require.Equal(t, tc.want, string(secrets[0].Data["networkdata"]), tc.reason)
		})
	}
}

func inTemplate(template string) string {
	return `{"virtualMachineTemplate":{"spec":{"template":` + template + `}}}`
}

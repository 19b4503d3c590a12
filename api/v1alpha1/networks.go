// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"slices"

	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// IsPrimary reports whether the network is the machine's primary one.
func (n *Network) IsPrimary() bool { return n.Default || n.Pod != nil }

// KeepsMAC reports whether a primary network's interface has a stable MAC address: behind a masquerade
// or passt binding, only the guest sees it. Any other network may drop packets with an address that it
// has not chosen.
func (n *Network) KeepsMAC() bool { return n.Masquerade != nil || n.PasstBinding != nil }

// PrimaryNetwork returns the machine's primary network, by default the pod network.
func (s *ProviderSpec) PrimaryNetwork() *Network {
	for i := range s.Networks {
		if s.Networks[i].IsPrimary() {
			return &s.Networks[i]
		}
	}

	return &Network{Pod: &PodNetwork{}}
}

// HasSecondaryNetworks reports whether the machine has more than one interface.
func (s *ProviderSpec) HasSecondaryNetworks() bool {
	return slices.ContainsFunc(s.Networks, func(n Network) bool { return !n.IsPrimary() })
}

// ChangesMAC reports whether the machine may be started again, and its primary interface then has
// another MAC address.
func (s *ProviderSpec) ChangesMAC() bool {
	return s.RootVolume.ContainerDisk == nil && !s.PrimaryNetwork().KeepsMAC()
}

// HasPredictableInterface reports whether the guest's primary interface has a name that is known
// before it boots: that of the first device on KubeVirt's PCI Express bus (enp1s0), or eth0 in images
// without predictable names. A virtual function has a slot among the host's devices, a device for
// conventional PCI is behind a bridge, and s390x has another bus. The architecture is in Go's terms.
func (s *ProviderSpec) HasPredictableInterface(architecture string) bool {
	primary := s.PrimaryNetwork()
	template := ptr.Deref(ptr.Deref(s.VirtualMachineTemplate, VirtualMachineTemplate{}).Spec.Template, VirtualMachineInstanceTemplate{})
	onBus0 := template.Metadata.Annotations[kubevirtv1.PlacePCIDevicesOnRootComplex] == "true"

	return primary.SRIOV == nil && slices.Contains([]string{"", kubevirtv1.VirtIO, "e1000e", "igb"}, primary.Model) &&
		!onBus0 && !ptr.Deref(template.Spec.Domain.Devices.UseVirtioTransitional, false) && architecture != "s390x"
}

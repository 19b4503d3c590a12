// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"crypto/sha256"
	"fmt"
	"strconv"

	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// PrimaryInterface is the name of a machine's primary interface. KubeVirt's
// cloud-controller-manager reads only the addresses of the interface with this name.
const PrimaryInterface = "default"

// networking returns a machine's interfaces and networks, the primary one first: the default Multus
// network if there is one, otherwise the pod network.
func networking(in *spi.CreateMachineInput) ([]kubevirtv1.Interface, []kubevirtv1.Network) {
	first := in.Spec.PrimaryNetwork()
	interfaces := []kubevirtv1.Interface{networkInterface(PrimaryInterface, *first)}
	networks := []kubevirtv1.Network{network(PrimaryInterface, *first)}

	if first.KeepsMAC() {
		interfaces[0].MacAddress = stableMAC(in, PrimaryInterface)
	}

	for i, secondary := range in.Spec.Networks {
		if secondary.IsPrimary() {
			continue
		}

		name := secondaryName(i)
		rendered := networkInterface(name, secondary)

		if secondary.MAC == v1alpha1.MACStable || generatesNetworkData(in) {
			rendered.MacAddress = stableMAC(in, name)
		}

		interfaces = append(interfaces, rendered)
		networks = append(networks, network(name, secondary))
	}

	return interfaces, networks
}

// templateAnnotations returns the annotations of the VirtualMachineInstance. KubeVirt reads only whether the
// annotation exists.
func templateAnnotations(spec *v1alpha1.ProviderSpec) map[string]string {
	if pod := spec.PrimaryNetwork().Pod; pod == nil || !pod.AllowBridgeLiveMigration {
		return nil
	}

	return map[string]string{kubevirtv1.AllowPodBridgeNetworkLiveMigrationAnnotation: "true"}
}

// secondaryName returns the name of the network at index i
// of the ProviderSpec, and of its interface.
func secondaryName(i int) string {
	return "net" + strconv.Itoa(i)
}

func network(name string, n v1alpha1.Network) kubevirtv1.Network {
	if n.Pod != nil {
		return kubevirtv1.Network{
			Name: name,
			NetworkSource: kubevirtv1.NetworkSource{
				Pod: &kubevirtv1.PodNetwork{VMNetworkCIDR: n.Pod.VMNetworkCIDR, VMIPv6NetworkCIDR: n.Pod.VMIPv6NetworkCIDR},
			},
		}
	}

	return kubevirtv1.Network{
		Name: name,
		NetworkSource: kubevirtv1.NetworkSource{
			Multus: &kubevirtv1.MultusNetwork{NetworkName: n.Name, Default: n.Default},
		},
	}
}

func networkInterface(name string, n v1alpha1.Network) kubevirtv1.Interface {
	rendered := kubevirtv1.Interface{Name: name, Model: n.Model}

	switch {
	case n.Binding != nil:
		rendered.Binding = n.Binding.DeepCopy()
	case n.Masquerade != nil:
		rendered.Masquerade = &kubevirtv1.InterfaceMasquerade{}
	case n.PasstBinding != nil:
		rendered.PasstBinding = &kubevirtv1.InterfacePasstBinding{}
	case n.SRIOV != nil:
		rendered.SRIOV = &kubevirtv1.InterfaceSRIOV{}
	default:
		// Explicit, since KubeVirt's default binding is configured by the provider admin.
		rendered.Bridge = &kubevirtv1.InterfaceBridge{}
	}

	return rendered
}

// stableMAC returns a locally administered unicast address
// that differs for each machine and network.
func stableMAC(in *spi.CreateMachineInput, network string) string {
	sum := sha256.Sum256([]byte(string(in.UID) + "/" + in.Name + "/" + network))

	// The second byte avoids 02:00:00:00:00:00, which KubeVirt
	// reserves for the pod's side of a bridge.
	return fmt.Sprintf("02:%02x:%02x:%02x:%02x:%02x", sum[0]|1, sum[1], sum[2], sum[3], sum[4])
}

package render

import (
	"strconv"

	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
)

// PrimaryInterface is the name of a machine's primary interface. KubeVirt's cloud-controller-manager reads the addresses of
// the interface with this name only.
const PrimaryInterface = "default"

// networking returns a machine's interfaces and networks: the primary one first, which is the default Multus network if there
// is one, else the pod network.
func networking(list []v1alpha1.Network) ([]kubevirtv1.Interface, []kubevirtv1.Network) {
	primary := kubevirtv1.Network{Name: PrimaryInterface, NetworkSource: kubevirtv1.NetworkSource{Pod: &kubevirtv1.PodNetwork{}}}

	var secondary []kubevirtv1.Network

	for i, network := range list {
		source := kubevirtv1.NetworkSource{Multus: &kubevirtv1.MultusNetwork{NetworkName: network.Name, Default: network.Default}}

		if network.Default {
			primary.NetworkSource = source
		} else {
			secondary = append(secondary, kubevirtv1.Network{Name: "net" + strconv.Itoa(i), NetworkSource: source})
		}
	}

	networks := append([]kubevirtv1.Network{primary}, secondary...)
	interfaces := make([]kubevirtv1.Interface, 0, len(networks))

	for _, network := range networks {
		interfaces = append(interfaces, kubevirtv1.Interface{
			Name: network.Name,
			// Explicit, since what KubeVirt does with an interface without a binding is the provider admin's setting.
			InterfaceBindingMethod: kubevirtv1.InterfaceBindingMethod{Bridge: &kubevirtv1.InterfaceBridge{}},
		})
	}

	return interfaces, networks
}

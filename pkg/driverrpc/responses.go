package driverrpc

import (
	"github.com/gardener/machine-controller-manager/pkg/util/provider/driver"
	corev1 "k8s.io/api/core/v1"

	driverv1 "github.com/gardener/machine-controller-manager-provider-kubevirt/api/driver/v1"
)

// Each pair of functions below converts one response, and nil to nil: an error
// usually comes without a response.

func encodeCreated(r *driver.CreateMachineResponse) *driverv1.CreateMachineResponse {
	if r == nil {
		return nil
	}

	return &driverv1.CreateMachineResponse{
		ProviderId: r.ProviderID, NodeName: r.NodeName, LastKnownState: r.LastKnownState, Addresses: encodeAddresses(r.Addresses),
	}
}

func decodeCreated(r *driverv1.CreateMachineResponse) *driver.CreateMachineResponse {
	if r == nil {
		return nil
	}

	return &driver.CreateMachineResponse{
		ProviderID: r.GetProviderId(), NodeName: r.GetNodeName(), LastKnownState: r.GetLastKnownState(),
		Addresses: decodeAddresses(r.GetAddresses()),
	}
}

func encodeInitialized(r *driver.InitializeMachineResponse) *driverv1.InitializeMachineResponse {
	if r == nil {
		return nil
	}

	return &driverv1.InitializeMachineResponse{
		ProviderId: r.ProviderID, NodeName: r.NodeName, Addresses: encodeAddresses(r.Addresses),
	}
}

func decodeInitialized(r *driverv1.InitializeMachineResponse) *driver.InitializeMachineResponse {
	if r == nil {
		return nil
	}

	return &driver.InitializeMachineResponse{
		ProviderID: r.GetProviderId(), NodeName: r.GetNodeName(), Addresses: decodeAddresses(r.GetAddresses()),
	}
}

func encodeDeleted(r *driver.DeleteMachineResponse) *driverv1.DeleteMachineResponse {
	if r == nil {
		return nil
	}

	return &driverv1.DeleteMachineResponse{LastKnownState: r.LastKnownState}
}

func decodeDeleted(r *driverv1.DeleteMachineResponse) *driver.DeleteMachineResponse {
	if r == nil {
		return nil
	}

	return &driver.DeleteMachineResponse{LastKnownState: r.GetLastKnownState()}
}

func encodeStatus(r *driver.GetMachineStatusResponse) *driverv1.GetMachineStatusResponse {
	if r == nil {
		return nil
	}

	return &driverv1.GetMachineStatusResponse{
		ProviderId: r.ProviderID, NodeName: r.NodeName, Addresses: encodeAddresses(r.Addresses),
	}
}

func decodeStatus(r *driverv1.GetMachineStatusResponse) *driver.GetMachineStatusResponse {
	if r == nil {
		return nil
	}

	return &driver.GetMachineStatusResponse{
		ProviderID: r.GetProviderId(), NodeName: r.GetNodeName(), Addresses: decodeAddresses(r.GetAddresses()),
	}
}

func encodeList(r *driver.ListMachinesResponse) *driverv1.ListMachinesResponse {
	if r == nil {
		return nil
	}

	return &driverv1.ListMachinesResponse{MachineList: r.MachineList}
}

// decodeList returns an empty map if none was sent, as drivers do.
func decodeList(r *driverv1.ListMachinesResponse) *driver.ListMachinesResponse {
	if r == nil {
		return nil
	}

	list := r.GetMachineList()
	if list == nil {
		list = map[string]string{}
	}

	return &driver.ListMachinesResponse{MachineList: list}
}

func encodeVolumeIDs(r *driver.GetVolumeIDsResponse) *driverv1.GetVolumeIDsResponse {
	if r == nil {
		return nil
	}

	return &driverv1.GetVolumeIDsResponse{VolumeIds: r.VolumeIDs}
}

// decodeVolumeIDs returns an empty list if none was sent, as drivers do.
func decodeVolumeIDs(r *driverv1.GetVolumeIDsResponse) *driver.GetVolumeIDsResponse {
	if r == nil {
		return nil
	}

	return &driver.GetVolumeIDsResponse{VolumeIDs: append([]string{}, r.GetVolumeIds()...)}
}

func encodeAddresses(addresses []corev1.NodeAddress) []*driverv1.NodeAddress {
	var wire []*driverv1.NodeAddress
	for _, a := range addresses {
		wire = append(wire, &driverv1.NodeAddress{Type: string(a.Type), Address: a.Address})
	}

	return wire
}

func decodeAddresses(wire []*driverv1.NodeAddress) []corev1.NodeAddress {
	var addresses []corev1.NodeAddress
	for _, a := range wire {
		addresses = append(addresses, corev1.NodeAddress{Type: corev1.NodeAddressType(a.GetType()), Address: a.GetAddress()})
	}

	return addresses
}

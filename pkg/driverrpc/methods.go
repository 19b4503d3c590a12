// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package driverrpc

import (
	"maps"

	"github.com/gardener/machine-controller-manager/pkg/util/provider/driver"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/machinecodes/codes"

	driverv1 "github.com/gardener/machine-controller-manager-provider-kubevirt/api/driver/v1"
)

var createMachine = method[
	driver.CreateMachineRequest, driver.CreateMachineResponse, driverv1.CreateMachineRequest, driverv1.CreateMachineResponse,
]{
	name: driverv1.MachineDriver_CreateMachine_FullMethodName,
	encodeRequest: func(c *codec, r *driver.CreateMachineRequest) *driverv1.CreateMachineRequest {
		return &driverv1.CreateMachineRequest{
			Machine:      c.encodeMachine(r.Machine),
			MachineClass: c.encodeClass(r.MachineClass),
			Secret:       encodeSecret(r.Secret),
		}
	},
	decodeRequest: func(c *codec, r *driverv1.CreateMachineRequest) *driver.CreateMachineRequest {
		return &driver.CreateMachineRequest{
			Machine:      c.decodeMachine(r.GetMachine()),
			MachineClass: c.decodeClass(r.GetMachineClass()),
			Secret:       decodeSecret(r.GetSecret()),
		}
	},
	encodeResponse: func(r *driver.CreateMachineResponse) *driverv1.CreateMachineResponse {
		return &driverv1.CreateMachineResponse{
			ProviderId:     r.ProviderID,
			NodeName:       r.NodeName,
			LastKnownState: r.LastKnownState,
			Addresses:      encodeAddresses(r.Addresses),
		}
	},
	decodeResponse: func(r *driverv1.CreateMachineResponse) *driver.CreateMachineResponse {
		return &driver.CreateMachineResponse{
			ProviderID:     r.GetProviderId(),
			NodeName:       r.GetNodeName(),
			LastKnownState: r.GetLastKnownState(),
			Addresses:      decodeAddresses(r.GetAddresses()),
		}
	},
	attach: func(e *driverv1.MachineError, r *driverv1.CreateMachineResponse) {
		e.Response = &driverv1.MachineError_CreateMachine{CreateMachine: r}
	},
	attached: (*driverv1.MachineError).GetCreateMachine,
	missing:  func(r *driver.CreateMachineResponse) string { return missingIdentity(r.ProviderID, r.NodeName) },
}

var initializeMachine = method[
	driver.InitializeMachineRequest, driver.InitializeMachineResponse,
	driverv1.InitializeMachineRequest, driverv1.InitializeMachineResponse,
]{
	name: driverv1.MachineDriver_InitializeMachine_FullMethodName,
	encodeRequest: func(c *codec, r *driver.InitializeMachineRequest) *driverv1.InitializeMachineRequest {
		return &driverv1.InitializeMachineRequest{
			Machine:      c.encodeMachine(r.Machine),
			MachineClass: c.encodeClass(r.MachineClass),
			Secret:       encodeSecret(r.Secret),
		}
	},
	decodeRequest: func(c *codec, r *driverv1.InitializeMachineRequest) *driver.InitializeMachineRequest {
		return &driver.InitializeMachineRequest{
			Machine:      c.decodeMachine(r.GetMachine()),
			MachineClass: c.decodeClass(r.GetMachineClass()),
			Secret:       decodeSecret(r.GetSecret()),
		}
	},
	encodeResponse: func(r *driver.InitializeMachineResponse) *driverv1.InitializeMachineResponse {
		return &driverv1.InitializeMachineResponse{ProviderId: r.ProviderID, NodeName: r.NodeName, Addresses: encodeAddresses(r.Addresses)}
	},
	decodeResponse: func(r *driverv1.InitializeMachineResponse) *driver.InitializeMachineResponse {
		return &driver.InitializeMachineResponse{ProviderID: r.GetProviderId(), NodeName: r.GetNodeName(), Addresses: decodeAddresses(r.GetAddresses())}
	},
	attach: func(e *driverv1.MachineError, r *driverv1.InitializeMachineResponse) {
		e.Response = &driverv1.MachineError_InitializeMachine{InitializeMachine: r}
	},
	attached: (*driverv1.MachineError).GetInitializeMachine,
	missing:  func(r *driver.InitializeMachineResponse) string { return missingIdentity(r.ProviderID, r.NodeName) },
}

// deleteMachine's response may be empty: success means that the machine is gone.
var deleteMachine = method[
	driver.DeleteMachineRequest, driver.DeleteMachineResponse, driverv1.DeleteMachineRequest, driverv1.DeleteMachineResponse,
]{
	name: driverv1.MachineDriver_DeleteMachine_FullMethodName,
	encodeRequest: func(c *codec, r *driver.DeleteMachineRequest) *driverv1.DeleteMachineRequest {
		return &driverv1.DeleteMachineRequest{
			Machine:      c.encodeMachine(r.Machine),
			MachineClass: c.encodeClass(r.MachineClass),
			Secret:       encodeSecret(r.Secret),
		}
	},
	decodeRequest: func(c *codec, r *driverv1.DeleteMachineRequest) *driver.DeleteMachineRequest {
		return &driver.DeleteMachineRequest{
			Machine:      c.decodeMachine(r.GetMachine()),
			MachineClass: c.decodeClass(r.GetMachineClass()),
			Secret:       decodeSecret(r.GetSecret()),
		}
	},
	encodeResponse: func(r *driver.DeleteMachineResponse) *driverv1.DeleteMachineResponse {
		return &driverv1.DeleteMachineResponse{LastKnownState: r.LastKnownState}
	},
	decodeResponse: func(r *driverv1.DeleteMachineResponse) *driver.DeleteMachineResponse {
		return &driver.DeleteMachineResponse{LastKnownState: r.GetLastKnownState()}
	},
	attach: func(e *driverv1.MachineError, r *driverv1.DeleteMachineResponse) {
		e.Response = &driverv1.MachineError_DeleteMachine{DeleteMachine: r}
	},
	attached: (*driverv1.MachineError).GetDeleteMachine,
}

// getMachineStatus also requires a response with the error Uninitialized.
var getMachineStatus = method[
	driver.GetMachineStatusRequest, driver.GetMachineStatusResponse, driverv1.GetMachineStatusRequest, driverv1.GetMachineStatusResponse,
]{
	name: driverv1.MachineDriver_GetMachineStatus_FullMethodName,
	encodeRequest: func(c *codec, r *driver.GetMachineStatusRequest) *driverv1.GetMachineStatusRequest {
		return &driverv1.GetMachineStatusRequest{
			Machine:      c.encodeMachine(r.Machine),
			MachineClass: c.encodeClass(r.MachineClass),
			Secret:       encodeSecret(r.Secret),
		}
	},
	decodeRequest: func(c *codec, r *driverv1.GetMachineStatusRequest) *driver.GetMachineStatusRequest {
		return &driver.GetMachineStatusRequest{
			Machine:      c.decodeMachine(r.GetMachine()),
			MachineClass: c.decodeClass(r.GetMachineClass()),
			Secret:       decodeSecret(r.GetSecret()),
		}
	},
	encodeResponse: func(r *driver.GetMachineStatusResponse) *driverv1.GetMachineStatusResponse {
		return &driverv1.GetMachineStatusResponse{ProviderId: r.ProviderID, NodeName: r.NodeName, Addresses: encodeAddresses(r.Addresses)}
	},
	decodeResponse: func(r *driverv1.GetMachineStatusResponse) *driver.GetMachineStatusResponse {
		return &driver.GetMachineStatusResponse{ProviderID: r.GetProviderId(), NodeName: r.GetNodeName(), Addresses: decodeAddresses(r.GetAddresses())}
	},
	attach: func(e *driverv1.MachineError, r *driverv1.GetMachineStatusResponse) {
		e.Response = &driverv1.MachineError_GetMachineStatus{GetMachineStatus: r}
	},
	attached:     (*driverv1.MachineError).GetGetMachineStatus,
	missing:      func(r *driver.GetMachineStatusResponse) string { return missingIdentity(r.ProviderID, r.NodeName) },
	responseCode: codes.Uninitialized,
}

// listMachines returns an empty map if none was sent, as drivers do.
var listMachines = method[
	driver.ListMachinesRequest, driver.ListMachinesResponse, driverv1.ListMachinesRequest, driverv1.ListMachinesResponse,
]{
	name: driverv1.MachineDriver_ListMachines_FullMethodName,
	encodeRequest: func(c *codec, r *driver.ListMachinesRequest) *driverv1.ListMachinesRequest {
		return &driverv1.ListMachinesRequest{MachineClass: c.encodeClass(r.MachineClass), Secret: encodeSecret(r.Secret)}
	},
	decodeRequest: func(c *codec, r *driverv1.ListMachinesRequest) *driver.ListMachinesRequest {
		return &driver.ListMachinesRequest{MachineClass: c.decodeClass(r.GetMachineClass()), Secret: decodeSecret(r.GetSecret())}
	},
	encodeResponse: func(r *driver.ListMachinesResponse) *driverv1.ListMachinesResponse {
		return &driverv1.ListMachinesResponse{MachineList: r.MachineList}
	},
	decodeResponse: func(r *driverv1.ListMachinesResponse) *driver.ListMachinesResponse {
		return &driver.ListMachinesResponse{MachineList: maps.Collect(maps.All(r.GetMachineList()))}
	},
	attach: func(e *driverv1.MachineError, r *driverv1.ListMachinesResponse) {
		e.Response = &driverv1.MachineError_ListMachines{ListMachines: r}
	},
	attached: (*driverv1.MachineError).GetListMachines,
	missing:  missingInList,
}

// getVolumeIDs returns an empty list if none was sent, as drivers do.
var getVolumeIDs = method[
	driver.GetVolumeIDsRequest, driver.GetVolumeIDsResponse, driverv1.GetVolumeIDsRequest, driverv1.GetVolumeIDsResponse,
]{
	name: driverv1.MachineDriver_GetVolumeIDs_FullMethodName,
	encodeRequest: func(c *codec, r *driver.GetVolumeIDsRequest) *driverv1.GetVolumeIDsRequest {
		return &driverv1.GetVolumeIDsRequest{PvSpecs: c.encodeVolumes(r.PVSpecs)}
	},
	decodeRequest: func(c *codec, r *driverv1.GetVolumeIDsRequest) *driver.GetVolumeIDsRequest {
		return &driver.GetVolumeIDsRequest{PVSpecs: c.decodeVolumes(r.GetPvSpecs())}
	},
	encodeResponse: func(r *driver.GetVolumeIDsResponse) *driverv1.GetVolumeIDsResponse {
		return &driverv1.GetVolumeIDsResponse{VolumeIds: r.VolumeIDs}
	},
	decodeResponse: func(r *driverv1.GetVolumeIDsResponse) *driver.GetVolumeIDsResponse {
		return &driver.GetVolumeIDsResponse{VolumeIDs: append([]string{}, r.GetVolumeIds()...)}
	},
	attach: func(e *driverv1.MachineError, r *driverv1.GetVolumeIDsResponse) {
		e.Response = &driverv1.MachineError_GetVolumeIds{GetVolumeIds: r}
	},
	attached: (*driverv1.MachineError).GetGetVolumeIds,
}

// missingInList checks a list by which machine-controller-manager may delete machines.
func missingInList(r *driver.ListMachinesResponse) string {
	for providerID, nodeName := range r.MachineList {
		if missing := missingIdentity(providerID, nodeName); missing != "" {
			return missing + " of a listed machine"
		}
	}

	return ""
}

func missingIdentity(providerID, nodeName string) string {
	switch {
	case providerID == "" && nodeName == "":
		return "a provider ID or a node name"
	case providerID == "":
		return "a provider ID"
	case nodeName == "":
		return "a node name"
	default:
		return ""
	}
}

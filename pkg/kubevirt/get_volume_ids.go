// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package kubevirt

import (
	"context"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/util/provider/driver"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/machineclass"
)

// csiDriverName is the name of KubeVirt's CSI driver (github.com/kubevirt/csi-driver).
const csiDriverName = "csi.kubevirt.io"

// GetVolumeIDs returns the volume handles of the persistent volumes of KubeVirt's CSI driver.
// machine-controller-manager waits for their detachment when it drains a node.
//
// Codes: InvalidArgument (an empty request).
func (p *MachinePlugin) GetVolumeIDs(
	_ context.Context, req *driver.GetVolumeIDsRequest,
) (*driver.GetVolumeIDsResponse, error) {
	if req == nil {
		return nil, statusFrom(invalid("the request is empty"), machineclass.KubeconfigSource{})
	}

	started := time.Now()
	ids := []string{}

	for _, spec := range req.PVSpecs {
		if spec != nil && spec.CSI != nil && spec.CSI.Driver == csiDriverName {
			ids = append(ids, spec.CSI.VolumeHandle)
		}
	}

	countCall("GetVolumeIDs", time.Since(started), nil)

	return &driver.GetVolumeIDsResponse{VolumeIDs: ids}, nil
}

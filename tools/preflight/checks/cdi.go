// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"context"
	"errors"
)

// checkCDI checks that CDI is installed and ready, if a class has DataVolumes. An identity that may not read the
// CDI object can still list StorageProfiles.
func checkCDI(ctx context.Context, r *reader, in *scope) []Result {
	s := r.about("CDI")

	found, err := r.cdi(ctx)
	if err == nil {
		var conditions []condition
		for _, c := range found.Status.Conditions {
			conditions = append(conditions, condition{string(c.Type), c.Status, c.Message})
		}

		return readiness(s, found.Status.ObservedVersion, string(found.Status.Phase), conditions, kubectl("describe cdi", found.Name))
	}

	if !errors.Is(err, errNotInstalled) {
		if _, unknown := r.storageProfiles(ctx); !unknownType(unknown) {
			return s.notChecked(err, "kubectl get cdis")
		}
	}

	remedy := "install CDI: https://kubevirt.io/user-guide/storage/containerized_data_importer"

	for _, c := range in.classes {
		if len(c.vm.Spec.DataVolumeTemplates) > 0 {
			return s.fail("is not installed, and MachineClass "+c.Name+" has DataVolumes", remedy+"; or use providerSpec.rootVolume.containerDisk")
		}
	}

	return s.warn("is not installed, but these classes do not need it", remedy)
}

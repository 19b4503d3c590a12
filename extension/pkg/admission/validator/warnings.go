// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package validator

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
)

// warner adds warnings to the response for an accepted Shoot, which kubectl shows to its user: Gardener's
// validators return errors only.
type warner struct {
	admission.Handler

	shoots *shootValidator
}

// Handle implements admission.Handler.
func (w *warner) Handle(ctx context.Context, request admission.Request) admission.Response {
	response := w.Handler.Handle(ctx, request)
	if !response.Allowed || request.Kind.Kind != "Shoot" || request.Operation != admissionv1.Create && request.Operation != admissionv1.Update {
		return response
	}

	shoot := &gardencorev1beta1.Shoot{}
	oldShoot := &gardencorev1beta1.Shoot{}
	if json.Unmarshal(request.Object.Raw, shoot) != nil || shoot.DeletionTimestamp != nil {
		return response
	}

	if len(request.OldObject.Raw) > 0 && json.Unmarshal(request.OldObject.Raw, oldShoot) != nil {
		return response
	}

	response.Warnings = append(response.Warnings, w.migrationWarnings(ctx, shoot, oldShoot)...)

	return response
}

// migrationWarnings returns a warning for each new or changed pool whose machines cannot be live-migrated, since
// their machine type passes through devices.
func (w *warner) migrationWarnings(ctx context.Context, shoot, oldShoot *gardencorev1beta1.Shoot) []string {
	changed := func(worker *gardencorev1beta1.Worker) bool {
		return !slices.ContainsFunc(oldShoot.Spec.Provider.Workers, func(old gardencorev1beta1.Worker) bool {
			return old.Name == worker.Name && equality.Semantic.DeepEqual(old.Machine, worker.Machine)
		})
	}

	if !slices.ContainsFunc(shoot.Spec.Provider.Workers, func(worker gardencorev1beta1.Worker) bool { return changed(&worker) }) {
		return nil
	}

	c, err := w.shoots.resolve(ctx, shoot)
	if err != nil {
		return nil // It was just read without an error.
	}

	var warnings []string

	for i := range shoot.Spec.Provider.Workers {
		worker := &shoot.Spec.Provider.Workers[i]
		if fields := passedThrough(c.profileConfig.MachineTypes, worker.Machine.Type); len(fields) > 0 && changed(worker) && len(warnings) < maxWarnings {
			warnings = append(warnings, fmt.Sprintf(
				"spec.provider.workers[%d]: the machines of pool %s cannot be live-migrated, since their machine type %s has %s of the provider node: a drain of the provider node stops them",
				i, worker.Name, worker.Machine.Type, strings.Join(fields, " and ")))
		}
	}

	return warnings
}

// maxWarnings bounds the warnings of a response: API servers truncate long ones.
const maxWarnings = 10

// passedThrough returns the fields with devices of a machine type.
func passedThrough(types []api.MachineType, name string) []string {
	var fields []string

	if i := slices.IndexFunc(types, func(t api.MachineType) bool { return t.Name == name }); i >= 0 {
		if len(types[i].GPUs) > 0 {
			fields = append(fields, "gpus")
		}

		if len(types[i].HostDevices) > 0 {
			fields = append(fields, "hostDevices")
		}
	}

	return fields
}

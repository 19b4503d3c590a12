// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"context"
	"encoding/json"
	"fmt"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	providerspec "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
)

// validateAnnotations returns an error for each annotation that would connect the machines of a pool to another network, since a
// garden may be without the admission. Shoots that have such annotations in their classes keep them, also with a new class and on
// a new seed, which has no classes yet.
func (d *delegate) validateAnnotations(ctx context.Context, p *pool) (field.ErrorList, error) {
	if len(p.ValidateAnnotations(nil)) == 0 || d.restoring() {
		return nil, nil
	}

	classes := &machinev1alpha1.MachineClassList{}
	if err := d.seed.List(ctx, classes, client.InNamespace(d.worker.Namespace)); err != nil {
		return nil, fmt.Errorf("list MachineClasses: %w", err)
	}

	used := sets.New[string]()

	for i := range classes.Items {
		spec := &providerspec.ProviderSpec{}
		_ = json.Unmarshal(classes.Items[i].ProviderSpec.Raw, spec) // A newer version may have written it.

		if t := spec.VirtualMachineTemplate; t != nil && t.Spec.Template != nil {
			for key, value := range t.Spec.Template.Metadata.Annotations {
				used.Insert(key + "=" + value)
			}
		}
	}

	return p.ValidateAnnotations(used), nil
}

// restoring reports whether the control plane has just moved to this seed.
func (d *delegate) restoring() bool {
	return v1beta1helper.ComputeOperationType(d.worker.ObjectMeta, d.worker.Status.LastOperation) == gardencorev1beta1.LastOperationTypeRestore
}

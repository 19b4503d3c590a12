// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package workerpool

import (
	"encoding/json"
	"fmt"

	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1/validation"
)

// Limits of the MachineClasses and MachineDeployments of a Shoot: one of each for every pool and zone. They
// are objects of a seed that the Shoot shares with others, and the Worker controller has all of them in
// memory.
const (
	maxClasses = 1000
	// maxClassSize is the size of all classes together, in bytes. A class usually has 2 KiB.
	maxClassSize = 4 << 20
)

// ValidateClassCount returns an error if a Shoot needs more MachineClasses than a seed accepts. zones is the number
// of zones of all its pools together.
func ValidateClassCount(zones int) field.ErrorList {
	if zones <= maxClasses {
		return nil
	}

	// Without the number, an update that removes some of them has no new error.
	return field.ErrorList{field.Invalid(workersPath(), field.OmitValueType{}, fmt.Sprintf(
		"must have at most %d zones in all pools together, since each pool has a MachineClass per zone; use fewer pools or zones", maxClasses))}
}

// ValidateClassSize returns an error if the MachineClasses of a Shoot are larger than a seed accepts. size is
// their size in bytes: see Pool.ClassSize.
func ValidateClassSize(size int) field.ErrorList {
	if size <= maxClassSize {
		return nil
	}

	return field.ErrorList{field.Invalid(workersPath(), field.OmitValueType{}, fmt.Sprintf(
		"the MachineClasses of all pools and zones must have at most %d MiB together; shorten providerConfig, dataVolumes, labels, annotations and taints of the pools, or use fewer pools or zones",
		maxClassSize>>20))}
}

func workersPath() *field.Path { return field.NewPath("spec", "provider", "workers") }

// Validate returns the errors of the ProviderSpecs in all zones, and the size of their MachineClasses. The
// ProviderSpecs differ only in their zone, so that the first one is validated for all of them.
func (p *Pool) Validate() (size int, _ field.ErrorList) {
	if len(p.Zones) == 0 {
		return 0, nil // Settings.Pool reports it.
	}

	_, raw, errs := p.ProviderSpec(0)

	for i, zone := range p.Zones[1:] {
		errs = append(errs, validation.ValidateTopology(zone, p.path.Child("zones").Index(i+1))...)
	}

	return p.ClassSize(raw) * len(p.Zones), errs
}

// ClassSize returns the approximate size of the MachineClass and the MachineDeployment with a ProviderSpec,
// in bytes.
func (p *Pool) ClassSize(spec []byte) int {
	metadata, err := json.Marshal(struct {
		Labels, Annotations map[string]string
		Taints              []corev1.Taint
		NodeTemplate        *extensionsv1alpha1.NodeTemplate
	}{p.Labels, p.Annotations, p.Taints, p.Config.NodeTemplate})
	if err != nil {
		return len(spec) // These types have no values that JSON lacks.
	}

	return len(spec) + len(metadata)
}

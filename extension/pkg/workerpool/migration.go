// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package workerpool

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1/validation"
	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
)

// NotMigratable returns why the machines of the pool cannot be live-migrated, with the fields of the Shoot; nil if their
// configuration does not prevent it, or is not valid.
func (p *Pool) NotMigratable() *api.NotMigratablePool {
	spec, _, errs := p.ProviderSpec(0)
	if len(errs) > 0 {
		return nil
	}

	for _, b := range validation.MigrationBlockers(spec) {
		errs = append(errs, &field.Error{Field: b.Field, Detail: b.Detail})
	}

	if len(errs) == 0 {
		return nil
	}

	var reasons []string
	for _, err := range p.inShoot(errs, 0) {
		reasons = append(reasons, err.Field+" "+err.Detail)
	}

	return &api.NotMigratablePool{Name: p.Name, Reason: strings.Join(reasons, "; ")}
}

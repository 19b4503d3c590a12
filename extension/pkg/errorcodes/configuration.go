// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package errorcodes

import (
	"strings"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// OfConfiguration returns the errors of a Shoot's configuration with their code; nil if there are none.
// If one of them needs a change of the Shoot, Gardener does not retry before. If the operator can
// correct all of them in the CloudProfile, Gardener retries, since that change does not start a
// reconciliation.
func OfConfiguration(errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}

	code := gardencorev1beta1.ErrorRetryableConfigurationProblem

	for _, err := range errs {
		if !ofCloudProfile(err) {
			code = gardencorev1beta1.ErrorConfigurationProblem
		}
	}

	return v1beta1helper.NewErrorWithCodes(errs.ToAggregate(), code)
}

// ofCloudProfile reports whether a change of the CloudProfile repairs an error: the field is one of the
// CloudProfile, or the Shoot refers to something that the CloudProfile does not have.
func ofCloudProfile(err *field.Error) bool {
	return err.Type == field.ErrorTypeNotFound || strings.HasPrefix(err.Field, "CloudProfile.")
}

// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package errorcodes_test

import (
	"testing"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/errorcodes"
)

func TestOfConfiguration(t *testing.T) {
	t.Parallel()

	pool := field.NewPath("spec", "provider", "workers").Index(0)
	ofShoot := field.Invalid(pool.Child("providerConfig", "memory", "guest"), 0, "must be at least 1Mi")
	forbidden := field.Forbidden(pool.Child("providerConfig", "devices", "gpus"), "only the operator can set it, for a machine type of the CloudProfile")
	machineType := field.NotFound(pool.Child("machine", "type"), "large")
	profile := field.Invalid(field.NewPath("CloudProfile", "spec", "providerConfig"), "", "must be a CloudProfileConfig")

	for name, tc := range map[string]struct {
		reason string
		errs   field.ErrorList
		want   []gardencorev1beta1.ErrorCode
	}{
		"None":  {reason: "there is no error"},
		"Shoot": {reason: "its change starts the next attempt", errs: field.ErrorList{ofShoot, forbidden}, want: []gardencorev1beta1.ErrorCode{gardencorev1beta1.ErrorConfigurationProblem}},
		"CloudProfile": {
			reason: "its change starts nothing",
			errs:   field.ErrorList{machineType, profile},
			want:   []gardencorev1beta1.ErrorCode{gardencorev1beta1.ErrorRetryableConfigurationProblem},
		},
		"Both": {reason: "the Shoot has to change anyway", errs: field.ErrorList{machineType, ofShoot}, want: []gardencorev1beta1.ErrorCode{gardencorev1beta1.ErrorConfigurationProblem}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			require.Equal(t, tc.want, v1beta1helper.ExtractErrorCodes(errorcodes.OfConfiguration(tc.errs)), tc.reason)
		})
	}

	require.NoError(t, errorcodes.OfConfiguration(nil))
}

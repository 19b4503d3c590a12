// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package errorcodes

import (
	"slices"
	"time"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
)

// patience is how long the deletion of a Shoot waits for a provider cluster that does not respond.
const patience = time.Hour

// final are the codes that Gardener does not retry, by the retried code for the same cause.
var final = map[gardencorev1beta1.ErrorCode]gardencorev1beta1.ErrorCode{
	gardencorev1beta1.ErrorRetryableInfraDependencies:    gardencorev1beta1.ErrorInfraDependencies,
	gardencorev1beta1.ErrorRetryableConfigurationProblem: gardencorev1beta1.ErrorConfigurationProblem,
}

// OfDeletion returns an error of an operation on a Shoot with the codes for its deletion. If the
// Shoot has been deleted for more than an hour, a code that is retried is joined by the one that is
// not: the cause may never be repaired, and gardener-apiserver accepts a forced deletion only with an
// error that is not retried (pkg/api/core/validation/shoot.go, errorCodesAllowingForceDeletion).
// gardenlet then stops its retries.
func OfDeletion(err error, shoot *gardencorev1beta1.Shoot, now time.Time) error {
	if err == nil || shoot == nil || shoot.DeletionTimestamp == nil || now.Sub(shoot.DeletionTimestamp.Time) < patience {
		return err
	}

	codes := v1beta1helper.ExtractErrorCodes(err)
	known := len(codes)

	for _, code := range codes[:known] {
		if finally, retried := final[code]; retried && !slices.Contains(codes, finally) {
			codes = append(codes, finally)
		}
	}

	if len(codes) == known {
		return err
	}

	return v1beta1helper.NewErrorWithCodes(err, codes...)
}

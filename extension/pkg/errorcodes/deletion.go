package errorcodes

import (
	"slices"
	"time"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
)

// patience is how long the deletion of a Shoot waits for a provider cluster that does not respond.
const patience = time.Hour

// OfDeletion returns an error of an operation on a Shoot with the codes for its deletion. If the
// Shoot has been deleted for more than an hour, ErrorRetryableInfraDependencies is joined by
// ErrorInfraDependencies: the provider cluster may be gone forever, and gardener-apiserver accepts a
// forced deletion only with an error that is not retried (pkg/api/core/validation/shoot.go,
// errorCodesAllowingForceDeletion). gardenlet then stops its retries.
func OfDeletion(err error, shoot *gardencorev1beta1.Shoot, now time.Time) error {
	if err == nil || shoot == nil || shoot.DeletionTimestamp == nil || now.Sub(shoot.DeletionTimestamp.Time) < patience {
		return err
	}

	codes := v1beta1helper.ExtractErrorCodes(err)
	if !slices.Contains(codes, gardencorev1beta1.ErrorRetryableInfraDependencies) {
		return err
	}

	return v1beta1helper.NewErrorWithCodes(err, append(codes, gardencorev1beta1.ErrorInfraDependencies)...)
}

// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package errorcodes_test

import (
	"errors"
	"testing"
	"time"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/errorcodes"
)

func TestOfDeletion(t *testing.T) {
	t.Parallel()

	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	silent := v1beta1helper.NewErrorWithCodes(errors.New("no such host"), gardencorev1beta1.ErrorRetryableInfraDependencies)

	for name, tc := range map[string]struct {
		reason  string
		deleted time.Duration // ago
		err     error
		want    []gardencorev1beta1.ErrorCode
	}{
		"Exists":  {reason: "the Shoot can wait", err: silent, want: []gardencorev1beta1.ErrorCode{gardencorev1beta1.ErrorRetryableInfraDependencies}},
		"Outage":  {reason: "it may pass", deleted: 59 * time.Minute, err: silent, want: []gardencorev1beta1.ErrorCode{gardencorev1beta1.ErrorRetryableInfraDependencies}},
		"Another": {reason: "it has no code", deleted: time.Hour, err: errors.New("x")},
		"Configuration": {
			reason:  "an object of the provider cluster is missing, and may never be created",
			deleted: time.Hour,
			err:     v1beta1helper.NewErrorWithCodes(errors.New("no StorageClass"), gardencorev1beta1.ErrorRetryableConfigurationProblem),
			want:    []gardencorev1beta1.ErrorCode{gardencorev1beta1.ErrorRetryableConfigurationProblem, gardencorev1beta1.ErrorConfigurationProblem},
		},
		"Success": {reason: "there is no error", deleted: time.Hour},
		"Gone": {
			reason:  "the user can force the deletion",
			deleted: time.Hour,
			err:     silent,
			want:    []gardencorev1beta1.ErrorCode{gardencorev1beta1.ErrorRetryableInfraDependencies, gardencorev1beta1.ErrorInfraDependencies},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			shoot := &gardencorev1beta1.Shoot{}
			if tc.deleted > 0 {
				shoot.DeletionTimestamp = &metav1.Time{Time: now.Add(-tc.deleted)}
			}

			err := errorcodes.OfDeletion(tc.err, shoot, now)
			require.ErrorIs(t, err, tc.err)
			require.Equal(t, tc.want, v1beta1helper.ExtractErrorCodes(err), tc.reason)
		})
	}
}

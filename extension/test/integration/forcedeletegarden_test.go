// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"errors"
	"testing"
	"time"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/errorcodes"
)

// TestForceDeletionIsAccepted confirms the forced deletion of a Shoot whose provider cluster does not
// respond. gardener-apiserver denies it at first, and accepts it with the errors that the extension
// reports an hour after the deletion.
func TestForceDeletionIsAccepted(t *testing.T) {
	t.Parallel()

	shoot := deletedShoot(t, "unreachable")

	reportError(t, shoot, time.Now())
	require.ErrorContains(t, confirmForceDeletion(t, shoot), "force-deletion annotation cannot be set when Shoot status does not contain one of these error codes")

	reportError(t, shoot, time.Now().Add(time.Hour))
	require.NoError(t, confirmForceDeletion(t, shoot))
}

// deletedShoot creates a Shoot in the garden, and deletes it. It exists until the end of the test.
func deletedShoot(t *testing.T, name string) *gardencorev1beta1.Shoot {
	t.Helper()

	shoot := createShoot(t, name)

	// gardenlet adds the finalizer, and removes it after the deletion.
	controllerutil.AddFinalizer(shoot, gardencorev1beta1.GardenerName)
	metav1.SetMetaDataAnnotation(&shoot.ObjectMeta, v1beta1constants.ConfirmationDeletion, "true")
	require.NoError(t, theSeed.Garden.Update(t.Context(), shoot))
	require.NoError(t, theSeed.Garden.Delete(t.Context(), shoot))

	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context()) // That of the test has ended.
		before := client.MergeFrom(shoot.DeepCopy())
		controllerutil.RemoveFinalizer(shoot, gardencorev1beta1.GardenerName)
		require.NoError(t, theSeed.Garden.Patch(ctx, shoot, before))
	})

	require.NoError(t, theSeed.Garden.Get(t.Context(), client.ObjectKeyFromObject(shoot), shoot))

	return shoot
}

// reportError writes the status of a Shoot as gardenlet does when the extension reports at the time
// now that the provider cluster does not respond.
func reportError(t *testing.T, shoot *gardencorev1beta1.Shoot, now time.Time) {
	t.Helper()

	silent := v1beta1helper.NewErrorWithCodes(errors.New("provider cluster: no such host"), gardencorev1beta1.ErrorRetryableInfraDependencies)
	err := errorcodes.OfDeletion(silent, shoot, now)

	before := client.MergeFrom(shoot.DeepCopy())
	shoot.Status.LastErrors = []gardencorev1beta1.LastError{{Description: err.Error(), Codes: v1beta1helper.ExtractErrorCodes(err)}}
	require.NoError(t, theSeed.Garden.Status().Patch(t.Context(), shoot, before))
}

// confirmForceDeletion annotates a Shoot as its owner does.
func confirmForceDeletion(t *testing.T, shoot *gardencorev1beta1.Shoot) error {
	t.Helper()

	confirmed := shoot.DeepCopy()
	metav1.SetMetaDataAnnotation(&confirmed.ObjectMeta, v1beta1constants.AnnotationConfirmationForceDeletion, "true")

	return theSeed.Garden.Patch(t.Context(), confirmed, client.MergeFrom(shoot))
}

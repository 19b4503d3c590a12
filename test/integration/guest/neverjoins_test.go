// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

//go:build guest

package guest

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

// mute is user data in the format of a script, which does not start kubelet.
const mute = "#!/bin/sh\necho 'this guest does not join' > /dev/ttyS0\n"

// TestNeverJoins boots a worker that does not join, and requires that another one replaces it after the
// creation timeout.
func TestNeverJoins(t *testing.T) {
	proves(t, "a guest that does not join is replaced after the creation timeout")

	var states harness.MachineStates

	w := newWorker(t, func(*testing.T, *harness.Shoot) string { return mute }, `{}`, states.Observe)

	harness.Within(t, bootLimit, "the guest has run its user data", func(context.Context) (bool, error) {
		info, known := harness.Lab().Guests.Find(w.machine.Name)
		if !known {
			return false, nil
		}

		console, err := os.ReadFile(filepath.Clean(info.Console))
		if os.IsNotExist(err) {
			return false, nil
		}

		return bytes.Contains(console, []byte("this guest does not join")), err
	})

	first, err := w.MCM.MachineV1alpha1().Machines(w.Namespace).Get(t.Context(), w.machine.Name, metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, w.machine.UID, first.UID, "it has not been replaced before")

	// From now on, a minute is enough to know that it does not join.
	patch := []byte(`{"spec":{"template":{"spec":{"creationTimeout":"1m"}}}}`)
	_, err = w.MCM.MachineV1alpha1().MachineDeployments(w.Namespace).Patch(t.Context(), pool, types.MergePatchType, patch, metav1.PatchOptions{})
	require.NoError(t, err)

	harness.Within(t, bootLimit, "another Machine has replaced it", func(ctx context.Context) (bool, error) {
		list, err := w.MCM.MachineV1alpha1().Machines(w.Namespace).List(ctx, metav1.ListOptions{})

		return err == nil && len(list.Items) == 1 && list.Items[0].UID != w.machine.UID, err
	})

	states.AwaitFailed(t, w.machine.Name, "failed to join the cluster in 1m0s")

	w.RequireGone(t, w.machine.Name)
	w.Scale(t, pool, 0)
	w.AwaitRunningWithin(t, bootLimit, 0)
}

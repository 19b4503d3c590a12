// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

//go:build bench

package integration

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"testing"
	"time"

	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	shoots = 100
	// maximumMiB is the budget of the extension's memory with that many shoots. Without any, Gardener's
	// library and Helm take a hundred.
	maximumMiB = 135
)

// TestHundredShoots measures the requests of a reconciliation without a change, and the memory of the
// extension with the objects of one hundred shoots: after its start, and after it reconciled all
// Infrastructures and one Worker.
func TestHundredShoots(t *testing.T) {
	rss, peak := memory(t)
	t.Logf("without shoots: %d MiB RSS, peak %d MiB", rss, peak)

	shoot := newShoot(t, named("copied"))
	shoot.HasControlPlane = true
	require.NoError(t, shoot.Reconcile(t.Context()))
	requireReadyNodes(t, shoot, 3)

	start := time.Now()
	require.NoError(t, shoot.Reconcile(t.Context()))

	requests, err := shoot.Requests(start)
	require.NoError(t, err)
	t.Logf("a reconciliation without a change: %d requests to the provider cluster: %v", len(requests), requests)

	require.NoError(t, theSeed.RestartExtension(t.Context(), func() error { return shoot.Copies(t.Context(), shoots-1) }))

	rss, peak = memory(t)
	t.Logf("%d shoots with 3 machines each, after the start: %d MiB RSS, peak %d MiB", shoots, rss, peak)

	reconcileAll(t)
	require.NoError(t, shoot.Reconcile(t.Context())) // It makes the extension cache the objects of all Workers.

	rss, peak = memory(t)
	t.Logf("%d shoots with 3 machines each, after the reconciliation of all Infrastructures and a Worker: %d MiB RSS, peak %d MiB", shoots, rss, peak)
	require.LessOrEqual(t, peak, maximumMiB)
}

// reconcileAll asks for the reconciliation of all Infrastructures at once, and waits for it.
func reconcileAll(t *testing.T) {
	t.Helper()

	start := time.Now().Truncate(time.Second)

	list := &extensionsv1alpha1.InfrastructureList{}
	require.NoError(t, theSeed.Client.List(t.Context(), list))
	require.Len(t, list.Items, shoots)

	for i := range list.Items {
		before := list.Items[i].DeepCopy()
		metav1.SetMetaDataAnnotation(&list.Items[i].ObjectMeta, v1beta1constants.GardenerOperation, v1beta1constants.GardenerOperationReconcile)
		require.NoError(t, theSeed.Client.Patch(t.Context(), &list.Items[i], client.MergeFrom(before)))
	}

	eventually(t, func(ctx context.Context) (bool, string) {
		if err := theSeed.Client.List(ctx, list); err != nil {
			return false, err.Error()
		}

		done := 0

		for i := range list.Items {
			last := list.Items[i].Status.LastOperation
			if last != nil && last.State == "Succeeded" && !last.LastUpdateTime.Time.Before(start) {
				done++
			}
		}

		return done == shoots, fmt.Sprintf("%d Infrastructures are reconciled", done)
	})
}

var memoryField = regexp.MustCompile(`(?m)^Vm(RSS|HWM):\s+(\d+) kB$`)

// memory returns the current and the peak memory of the extension in MiB.
func memory(t *testing.T) (rss, peak int) {
	t.Helper()

	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", theSeed.Extension.PID()))
	require.NoError(t, err)

	for _, field := range memoryField.FindAllStringSubmatch(string(status), -1) {
		kibibytes, err := strconv.Atoi(field[2])
		require.NoError(t, err)

		if field[1] == "RSS" {
			rss = kibibytes >> 10
		} else {
			peak = kibibytes >> 10
		}
	}

	require.Positive(t, rss)
	require.Positive(t, peak)

	return rss, peak
}

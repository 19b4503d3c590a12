// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package diagnose_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// TestCause_ImporterWithoutVolume tests importers without a node. CDI reports the same for importers
// whose volume cannot be created, which is not a lack of capacity.
func TestCause_ImporterWithoutVolume(t *testing.T) {
	t.Parallel()

	const (
		failed  = "rpc error: code = Internal desc = the driver is broken"
		noClass = `storageclass.storage.k8s.io "x" not found`
	)

	tests := map[string]struct {
		event  string
		stands time.Duration
		want   string
		kind   error
		ripe   bool
	}{
		"Driver":      {failed, 2 * time.Minute, "ProvisioningFailed", spi.ErrPrecondition, false},
		"DriverStays": {failed, 6 * time.Minute, "ProvisioningFailed", spi.ErrPrecondition, true},
		"Class":       {noClass, 2 * time.Minute, "StorageClassNotFound", spi.ErrPrecondition, true},
		"ClassStays":  {noClass, 6 * time.Minute, "StorageClassNotFound", spi.ErrPrecondition, true},
		"Room":        {"", 2 * time.Minute, "Unschedulable", spi.ErrExhausted, false},
		"RoomStays":   {"", 6 * time.Minute, "Unschedulable", spi.ErrExhausted, true},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			e := volumeSays(cdiv1beta1.DataVolumeRunning, "Unschedulable", "Importer pod cannot be scheduled", ago(tc.stands))
			if tc.event != "" {
				e.Events = []corev1.Event{warning("PersistentVolumeClaim", "ProvisioningFailed", tc.event, ago(tc.stands), ago(0))}
			}

			cause := e.Cause(now, grace)
			require.Equal(t, tc.want, cause.Err.Reason)
			require.ErrorIs(t, cause.Err, tc.kind)
			require.Equal(t, tc.ripe, !cause.ReportableAt.After(now))
		})
	}
}

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

// TestCause_CopyWithoutRoom tests copies whose pods do not start. CDI reports that they are in progress.
func TestCause_CopyWithoutRoom(t *testing.T) {
	t.Parallel()

	const (
		sender   = "a0a0-source-pod"
		receiver = "cdi-upload-tmp-pvc-b1b1"
		room     = "0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate, preemption: 0/2 nodes are available: 2 No preemption victims found."
		unbound  = "0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found"
	)

	tests := map[string]struct {
		pod, reason, message string
		node                 bool
		want                 string
		kind                 error
		say                  string
	}{
		"Sender":    {sender, "FailedScheduling", room, false, "Unschedulable", spi.ErrExhausted, "Pod a0a0-source-pod: 0/2 nodes are available: 2 Insufficient cpu"},
		"Receiver":  {receiver, "FailedScheduling", room, false, "Unschedulable", spi.ErrExhausted, "Pod cdi-upload-tmp-pvc-b1b1: "},
		"Mount":     {sender, "FailedAttachVolume", "Multi-Attach error", false, "VolumeMountFailed", spi.ErrPrecondition, "Pod a0a0-source-pod: Multi-Attach error"},
		"Scheduled": {sender, "FailedScheduling", room, true, "", nil, ""},
		"Unbound":   {sender, "FailedScheduling", unbound, false, "", nil, ""},
		"Launcher":  {"virt-launcher-m", "FailedScheduling", room, false, "", nil, ""},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			e := volumes(newVolume("disk", cdiv1beta1.CloneInProgress, says(cdiv1beta1.DataVolumeRunning, corev1.ConditionTrue, "Pod is running", "", ago(time.Hour))))
			event := warning("Pod", tc.reason, tc.message, ago(6*time.Minute), ago(time.Second))
			event.InvolvedObject.Name = tc.pod

			if tc.reason == "FailedScheduling" {
				event.Count = 1 // The scheduler repeats it late.
			}

			e.Events = append(e.Events, event)

			if tc.node {
				event.Type = corev1.EventTypeNormal
				event.Reason = "Scheduled"
				e.Events = append(e.Events, event)
			}

			cause := e.Cause(now, grace)
			if tc.want == "" {
				require.Nil(t, cause)

				return
			}

			require.Equal(t, tc.want, cause.Err.Reason)
			require.ErrorIs(t, cause.Err, tc.kind)
			require.Contains(t, cause.Err.Message, tc.say)
			require.NotContains(t, cause.Err.Message, "preemption")
			require.False(t, cause.ReportableAt.After(now))
		})
	}
}

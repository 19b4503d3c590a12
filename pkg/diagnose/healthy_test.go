// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package diagnose_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/diagnose"
)

// TestCause_HealthyTimelines goes through the observed states of healthy machines. None of them is a
// failure, however long it lasts.
func TestCause_HealthyTimelines(t *testing.T) {
	t.Parallel()

	long := ago(time.Hour)
	disk := func(phase cdiv1beta1.DataVolumePhase, conditions ...cdiv1beta1.DataVolumeCondition) []cdiv1beta1.DataVolume {
		return []cdiv1beta1.DataVolume{cloneOf(newVolume("disk", phase, conditions...))}
	}

	for _, phase := range []cdiv1beta1.DataVolumePhase{
		"", cdiv1beta1.Pending, cdiv1beta1.CloneScheduled, cdiv1beta1.CSICloneInProgress, cdiv1beta1.CloneInProgress,
		cdiv1beta1.PrepClaimInProgress, cdiv1beta1.RebindInProgress, cdiv1beta1.PendingPopulation, cdiv1beta1.WaitForFirstConsumer,
		cdiv1beta1.ImportScheduled, cdiv1beta1.ImportInProgress, cdiv1beta1.Succeeded,
	} {
		for _, status := range []string{"", "Stopped", "Provisioning", "WaitingForVolumeBinding", "Starting", "DataVolumeError"} {
			e := &diagnose.Evidence{
				VirtualMachine: newVM(status),
				DataVolumes: disk(phase,
					says(cdiv1beta1.DataVolumeBound, corev1.ConditionFalse, "Pending", "PVC disk Pending", long),
					says(cdiv1beta1.DataVolumeReady, corev1.ConditionFalse, "", "", long),
					says(cdiv1beta1.DataVolumeRunning, corev1.ConditionFalse, "Pending", "Clone Pending", long)),
			}
			require.Nil(t, e.Cause(now, grace), "%s, %s", phase, status)

			e.DataVolumes = disk(phase, says(cdiv1beta1.DataVolumeBound, corev1.ConditionFalse, "NotFound", "No PVC found", long),
				says(cdiv1beta1.DataVolumeRunning, corev1.ConditionFalse, "ContainerCreating", "", ago(9*time.Minute)))
			cause := e.Cause(now, grace)
			require.True(t, cause == nil || cause.ReportableAt.After(now), "%s, %s", phase, status)
		}
	}

	for _, phase := range []kubevirtv1.VirtualMachineInstancePhase{"", kubevirtv1.Pending, kubevirtv1.Scheduling, kubevirtv1.Running, kubevirtv1.Succeeded} {
		e := &diagnose.Evidence{
			VirtualMachine: newVM("Starting"),
			Instance: newInstance(phase,
				condition("Ready", "GuestNotRunning", "Guest VM is not reported as running", long),
				condition("DataVolumesReady", "NotAllDVsReady", "Not all of the VMI's DVs are ready", long)),
		}
		require.Nil(t, e.Cause(now, grace), phase)
	}
}

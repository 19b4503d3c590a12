// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"testing"

	"github.com/stretchr/testify/require"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

func TestAttachVolumes(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		reason       string
		wanted, cold bool
		phase, want  kubevirtv1.VolumePhase
	}{
		"on the node":     {reason: "the guest gets the disk", wanted: true, phase: kubevirtv1.HotplugVolumeAttachedToNode, want: kubevirtv1.VolumeReady},
		"not on the node": {reason: "virt-controller's pod does not run yet", wanted: true, phase: kubevirtv1.VolumePending, want: kubevirtv1.VolumePending},
		"attached":        {reason: "nothing changes", wanted: true, phase: kubevirtv1.VolumeReady, want: kubevirtv1.VolumeReady},
		"removed":         {reason: "virt-controller may delete its pod", phase: kubevirtv1.VolumeReady, want: kubevirtv1.HotplugVolumeUnMounted},
		"being removed":   {reason: "virt-controller deletes its pod", phase: kubevirtv1.HotplugVolumeDetaching, want: kubevirtv1.HotplugVolumeDetaching},
		"root disk":       {reason: "it is not hot-plugged", cold: true, phase: kubevirtv1.VolumeReady, want: kubevirtv1.VolumeReady},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			instance := testInstance()
			status := kubevirtv1.VolumeStatus{Name: "data", Phase: test.phase}
			if !test.cold {
				status.HotplugVolume = &kubevirtv1.HotplugVolumeStatus{AttachPodName: "hp-volume"}
			}
			if test.wanted {
				instance.Spec.Volumes = append(instance.Spec.Volumes, kubevirtv1.Volume{Name: "data"})
			}
			instance.Status.VolumeStatus = append(instance.Status.VolumeStatus, status)
			attachVolumes(instance)
			require.Equal(t, test.want, instance.Status.VolumeStatus[1].Phase, test.reason)
			target := ""
			if test.want == kubevirtv1.VolumeReady && !test.cold && test.phase != test.want {
				target = "sda"
			}
			require.Equal(t, target, instance.Status.VolumeStatus[1].Target)
		})
	}
}

// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/hypervisor"
)

// scriptedHypervisor has one guest in a given state, and records what it is asked for.
type scriptedHypervisor struct {
	state hypervisor.GuestState
	asked []string
}

func (h *scriptedHypervisor) Start(hypervisor.Boot) error {
	h.asked = append(h.asked, "start")
	return nil
}

func (h *scriptedHypervisor) Observe(types.UID) hypervisor.GuestState { return h.state }

func (h *scriptedHypervisor) PowerOff(types.UID) error {
	h.asked = append(h.asked, "power off")
	return nil
}

func (h *scriptedHypervisor) Kill(context.Context, types.UID) error {
	h.asked = append(h.asked, "kill")
	return nil
}

func (h *scriptedHypervisor) CloneVolume(context.Context, string, string) error { return nil }

func (h *scriptedHypervisor) Import(hypervisor.ImporterRun) (hypervisor.ImporterResult, bool) {
	return hypervisor.ImporterResult{}, false
}

func (h *scriptedHypervisor) DeleteVolume(string) error { return nil }

func TestRealGuest(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	running := hypervisor.GuestState{Started: true, Running: true}
	for name, test := range map[string]struct {
		reason  string
		state   hypervisor.GuestState
		phase   kubevirtv1.VirtualMachineInstancePhase
		deleted time.Duration // ago; zero: not deleted
		grace   int64
		want    kubevirtv1.VirtualMachineInstancePhase
		asked   []string
	}{
		"starting": {
			reason: "the hypervisor still copies disks",
			state:  hypervisor.GuestState{Started: true},
			phase:  kubevirtv1.Scheduled,
			want:   kubevirtv1.Scheduled,
		},
		"running": {reason: "QEMU runs", state: running, phase: kubevirtv1.Scheduled, want: kubevirtv1.Running},
		"deleted": {
			reason:  "its operating system may shut down",
			state:   running,
			phase:   kubevirtv1.Running,
			deleted: time.Second,
			grace:   60,
			want:    kubevirtv1.Running,
			asked:   []string{"power off"},
		},
		"grace period over": {
			reason:  "it did not shut down",
			state:   running,
			phase:   kubevirtv1.Running,
			deleted: time.Minute,
			grace:   60,
			want:    kubevirtv1.Running,
			asked:   []string{"kill"},
		},
		"deleted before its start": {reason: "there is nothing to end", phase: kubevirtv1.Scheduled, deleted: time.Second, grace: 60, want: kubevirtv1.Succeeded},
		"powered off": {
			reason: "a shutdown is no failure",
			state:  hypervisor.GuestState{Started: true, End: hypervisor.GuestShutDown},
			phase:  kubevirtv1.Running,
			want:   kubevirtv1.Succeeded,
		},
		"killed": {
			reason:  "virt-handler reports an expired grace period",
			state:   hypervisor.GuestState{Started: true, End: hypervisor.GuestKilled},
			phase:   kubevirtv1.Running,
			deleted: time.Minute,
			grace:   60,
			want:    kubevirtv1.Failed,
		},
		"killed on request": {
			reason:  "without a grace period it is expected",
			state:   hypervisor.GuestState{Started: true, End: hypervisor.GuestKilled},
			phase:   kubevirtv1.Running,
			deleted: time.Second,
			want:    kubevirtv1.Succeeded,
		},
		"crashed": {
			reason: "KubeVirt restarts it",
			state:  hypervisor.GuestState{Started: true, End: hypervisor.GuestFailed},
			phase:  kubevirtv1.Running,
			want:   kubevirtv1.Failed,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			instance := testInstance()
			instance.Status.Phase = test.phase
			instance.Spec.TerminationGracePeriodSeconds = &test.grace
			if test.deleted > 0 {
				instance.DeletionTimestamp = &metav1.Time{Time: now.Add(-test.deleted)}
			}
			hypervisor := &scriptedHypervisor{state: test.state}
			r := &realGuests{hypervisor: hypervisor, now: func() time.Time { return now }}
			_, err := r.advance(t.Context(), instance, &corev1.Pod{})
			require.NoError(t, err)
			require.Equal(t, test.want, instance.Status.Phase, test.reason)
			require.Equal(t, test.asked, hypervisor.asked, test.reason)
		})
	}
}

func TestRealGuestNeedsAHypervisor(t *testing.T) {
	t.Parallel()
	_, err := (&realGuests{}).advance(t.Context(), testInstance(), &corev1.Pod{})
	require.ErrorContains(t, err, "--guests=real")
}

func TestReportOfRealGuest(t *testing.T) {
	t.Parallel()
	instance := testInstance()
	instance.Spec.Domain.Devices.Interfaces[0].MacAddress = "02:00:00:00:00:41"
	pod := &corev1.Pod{Status: corev1.PodStatus{PodIP: "10.244.0.9"}}
	(&realGuests{now: time.Now}).report(instance, pod, &hypervisor.GuestAgent{
		OS: kubevirtv1.VirtualMachineInstanceGuestOSInfo{ID: "debian"},
		Interfaces: []hypervisor.GuestInterface{
			{Name: "enp1s0", MAC: "02:00:00:00:00:41", IPs: []string{"10.0.2.15"}},
			{Name: "enp2s0", MAC: "02:00:00:00:00:42", IPs: []string{"10.0.3.15", "fe80::1"}},
		},
	})
	statuses := instance.Status.Interfaces
	require.Equal(t, "10.244.0.9", statuses[0].IP, "the guest's own address is behind a translation")
	require.Equal(t, "enp1s0", statuses[0].InterfaceName)
	require.Equal(t, "10.0.3.15", statuses[1].IP)
	require.Equal(t, "debian", instance.Status.GuestOSInfo.ID)
}

func TestSecretNames(t *testing.T) {
	t.Parallel()
	instance := testInstance()
	reference := &corev1.LocalObjectReference{Name: "vm-userdata"}
	instance.Spec.Volumes = append(instance.Spec.Volumes, kubevirtv1.Volume{
		Name: "cloudinit",
		VolumeSource: kubevirtv1.VolumeSource{CloudInitNoCloud: &kubevirtv1.CloudInitNoCloudSource{
			UserDataSecretRef:    reference,
			NetworkDataSecretRef: reference,
		}},
	})
	instance.Spec.AccessCredentials = []kubevirtv1.AccessCredential{{SSHPublicKey: &kubevirtv1.SSHPublicKeyAccessCredential{
		Source: kubevirtv1.SSHPublicKeyAccessCredentialSource{
			Secret: &kubevirtv1.AccessCredentialSecretSource{SecretName: "vm-ssh"},
		},
	}}}
	require.Equal(t, []string{"vm-userdata", "vm-ssh"}, secretNames(instance), "each Secret once")
}

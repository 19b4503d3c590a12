// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/behaviour"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/cluster"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/hypervisor"
)

// realGuests is virt-handler's part for guests on a Hypervisor: it boots and ends them, and reports
// their state. Such a guest writes its Node itself.
type realGuests struct {
	provider   *cluster.Provider
	hypervisor hypervisor.Hypervisor // nil: none, so that such a guest never boots
	now        func() time.Time
}

// advance updates the instance's status, and returns when to reconcile again.
func (r *realGuests) advance(
	ctx context.Context, instance *kubevirtv1.VirtualMachineInstance, pod *corev1.Pod,
) (time.Duration, error) {
	if r.hypervisor == nil {
		return 0, fmt.Errorf("instance %s asks for a real guest, which this lab cannot boot: start it with --guests=real",
			cluster.InstanceKey(instance))
	}
	now := r.now()
	state := r.hypervisor.Observe(instance.UID)
	since, asked := shutdownRequest(instance, pod)
	switch {
	case state.End != hypervisor.GuestNotEnded:
		setPhase(instance, finalPhase(instance, state.End), now)
		return 0, nil
	case asked:
		return r.shutDown(ctx, instance, state, now.Sub(since))
	case pod == nil:
		return 0, nil
	case !state.Started:
		return behaviour.PollInterval, r.start(ctx, instance)
	case state.Running && instance.IsScheduled():
		setPhase(instance, kubevirtv1.Running, now)
	}
	if instance.IsRunning() {
		r.report(instance, pod, state.Agent)
	}
	return behaviour.PollInterval, nil
}

// finalPhase is the phase of an ended guest, by the rules of virt-handler's calculateVmPhaseForStatusReason.
func finalPhase(instance *kubevirtv1.VirtualMachineInstance, end hypervisor.GuestEnd) kubevirtv1.VirtualMachineInstancePhase {
	switch {
	case end == hypervisor.GuestShutDown, end == hypervisor.GuestKilled && gracePeriod(instance) == 0:
		return kubevirtv1.Succeeded
	default:
		return kubevirtv1.Failed
	}
}

// shutDown presses the power button until the guest has ended or its grace period is over.
func (r *realGuests) shutDown(
	ctx context.Context, instance *kubevirtv1.VirtualMachineInstance, state hypervisor.GuestState, asked time.Duration,
) (time.Duration, error) {
	switch {
	case !state.Started:
		setPhase(instance, kubevirtv1.Succeeded, r.now())
		return 0, nil
	case asked >= gracePeriod(instance):
		return behaviour.PollInterval, r.hypervisor.Kill(ctx, instance.UID)
	default:
		return behaviour.PollInterval, r.hypervisor.PowerOff(instance.UID)
	}
}

func (r *realGuests) start(ctx context.Context, instance *kubevirtv1.VirtualMachineInstance) error {
	secrets, err := r.secrets(ctx, instance)
	if err != nil {
		return err
	}
	disks, err := r.disks(instance)
	if err != nil {
		return err
	}
	addressed := instance.DeepCopy()
	for i := range addressed.Spec.Domain.Devices.Interfaces {
		device := &addressed.Spec.Domain.Devices.Interfaces[i]
		device.MacAddress = hardwareAddress(instance, *device)
	}
	return r.hypervisor.Start(hypervisor.Boot{Instance: addressed, Secrets: secrets, Disks: disks})
}

// secrets returns the values of all Secrets of an instance. The launcher pod has started, so they
// exist.
func (r *realGuests) secrets(
	ctx context.Context, instance *kubevirtv1.VirtualMachineInstance,
) (map[string]map[string][]byte, error) {
	found := map[string]map[string][]byte{}
	for _, name := range secretNames(instance) {
		secret, err := r.provider.Client.CoreV1().Secrets(instance.Namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nil, fmt.Errorf("read Secret %s of %s: %w", name, cluster.InstanceKey(instance), err)
		}
		found[name] = secret.Data
	}
	return found, nil
}

// secretNames returns the names of the Secrets with cloud-init data and SSH keys.
func secretNames(instance *kubevirtv1.VirtualMachineInstance) []string {
	var names []string
	add := func(references ...*corev1.LocalObjectReference) {
		for _, reference := range references {
			if reference != nil && !slices.Contains(names, reference.Name) {
				names = append(names, reference.Name)
			}
		}
	}
	for _, volume := range instance.Spec.Volumes {
		if source := volume.CloudInitNoCloud; source != nil {
			add(source.UserDataSecretRef, source.NetworkDataSecretRef)
		}
		if source := volume.CloudInitConfigDrive; source != nil {
			add(source.UserDataSecretRef, source.NetworkDataSecretRef)
		}
	}
	for _, credential := range instance.Spec.AccessCredentials {
		if key := credential.SSHPublicKey; key != nil && key.Source.Secret != nil {
			add(&corev1.LocalObjectReference{Name: key.Source.Secret.SecretName})
		}
	}
	return names
}

// disks returns the PersistentVolumes of an instance.
func (r *realGuests) disks(instance *kubevirtv1.VirtualMachineInstance) ([]hypervisor.Disk, error) {
	var disks []hypervisor.Disk
	for _, device := range instance.Spec.Domain.Devices.Disks {
		name := claimOf(instance, device.Name)
		if name == "" {
			continue
		}
		claim, err := r.provider.Claims.PersistentVolumeClaims(instance.Namespace).Get(name)
		if err != nil {
			return nil, fmt.Errorf("read PersistentVolumeClaim %s of %s: %w", name, cluster.InstanceKey(instance), err)
		}
		if claim.Spec.VolumeName == "" {
			return nil, apierrors.NewNotFound(corev1.Resource("persistentvolumes"), "of claim "+name)
		}
		disks = append(disks, hypervisor.Disk{Volume: device.Name, PersistentVolume: claim.Spec.VolumeName, Size: diskSize(instance, device.Name, claim)})
	}
	return disks, nil
}

// diskSize returns the size to which virt-launcher expands a disk: the claim's, less the file system's
// overhead, in whole MiB.
func diskSize(instance *kubevirtv1.VirtualMachineInstance, volume string, claim *corev1.PersistentVolumeClaim) int64 {
	capacity := claim.Status.Capacity[corev1.ResourceStorage]
	size := capacity.Value()
	overhead := 0.0
	for _, status := range instance.Status.VolumeStatus {
		info := status.PersistentVolumeClaimInfo
		if status.Name != volume || info == nil || info.FilesystemOverhead == nil || isBlock(info.VolumeMode) {
			continue
		}
		overhead, _ = strconv.ParseFloat(string(*info.FilesystemOverhead), 64) // KubeVirt validates it
	}
	const mebibyte = 1 << 20
	return int64(float64(size)*(1-overhead)) / mebibyte * mebibyte
}

func isBlock(mode *corev1.PersistentVolumeMode) bool {
	return mode != nil && *mode == corev1.PersistentVolumeBlock
}

// claimOf returns the PersistentVolumeClaim behind a volume of an instance, or "".
func claimOf(instance *kubevirtv1.VirtualMachineInstance, volume string) string {
	for _, v := range instance.Spec.Volumes {
		if v.Name == volume {
			return cluster.ClaimName(v)
		}
	}
	return ""
}

// report sets the status of a running guest.
func (r *realGuests) report(instance *kubevirtv1.VirtualMachineInstance, pod *corev1.Pod, agent *hypervisor.GuestAgent) {
	now := r.now()
	instance.Status.Interfaces = interfaceStatuses(instance, pod.Status.PodIP, agent != nil)
	instance.Status.SelinuxContext = noSELinux
	for _, condition := range []kubevirtv1.VirtualMachineInstanceConditionType{
		kubevirtv1.VirtualMachineInstanceIsMigratable, kubevirtv1.VirtualMachineInstanceIsStorageLiveMigratable,
	} {
		setInstanceCondition(instance, kubevirtv1.VirtualMachineInstanceCondition{
			Type:    condition,
			Status:  corev1.ConditionFalse,
			Reason:  kubevirtv1.VirtualMachineInstanceReasonNotMigratable,
			Message: "the lab cannot migrate real guests",
		}, now)
	}
	if agent == nil {
		return
	}
	instance.Status.GuestOSInfo = agent.OS
	for i := range instance.Status.Interfaces {
		addGuestView(&instance.Status.Interfaces[i], isPodNetwork(instance, instance.Status.Interfaces[i].Name), agent)
	}
	setInstanceCondition(instance, kubevirtv1.VirtualMachineInstanceCondition{
		Type:   kubevirtv1.VirtualMachineInstanceAgentConnected,
		Status: corev1.ConditionTrue,
	}, now)
}

// addGuestView adds what the guest agent knows of an interface. The IP on the pod network remains the
// pod's, since the address in the guest is behind a translation, as with KubeVirt's masquerade binding.
func addGuestView(status *kubevirtv1.VirtualMachineInstanceNetworkInterface, onPodNetwork bool, agent *hypervisor.GuestAgent) {
	for _, seen := range agent.Interfaces {
		if !strings.EqualFold(seen.MAC, status.MAC) {
			continue
		}
		status.InterfaceName = seen.Name
		if !onPodNetwork && len(seen.IPs) > 0 {
			status.IP = seen.IPs[0]
			status.IPs = seen.IPs
		}
	}
}

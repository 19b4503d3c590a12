// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"crypto/sha256"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/cluster"
)

// Info sources of an interface in a VirtualMachineInstance's status.
const (
	infoSourceDomain     = "domain"
	infoSourceGuestAgent = "guest-agent"
	infoSourceMultus     = "multus-status"
)

// interfaceStatuses returns one status per interface of the spec, and those of which only the guest agent knows. The interface
// on the pod network gets the launcher pod's IP; fields set by virt-controller are kept.
func interfaceStatuses(
	instance *kubevirtv1.VirtualMachineInstance, podIP string, agent bool,
) []kubevirtv1.VirtualMachineInstanceNetworkInterface {
	statuses := make([]kubevirtv1.VirtualMachineInstanceNetworkInterface, 0, len(instance.Spec.Domain.Devices.Interfaces))
	for i, spec := range instance.Spec.Domain.Devices.Interfaces {
		status := interfaceStatus(instance, spec.Name)
		status.Name = spec.Name
		status.MAC = hardwareAddress(instance, spec)
		status.QueueCount = 1
		status.LinkState = string(kubevirtv1.InterfaceStateLinkUp)
		if isPodNetwork(instance, spec.Name) {
			status.IP = podIP
			status.IPs = []string{podIP}
		}
		sources := []string{infoSourceDomain}
		if agent {
			sources = append(sources, infoSourceGuestAgent)
			status.InterfaceName = fmt.Sprintf("eth%d", i)
		}
		if strings.Contains(status.InfoSource, infoSourceMultus) {
			sources = append(sources, infoSourceMultus)
		}
		status.InfoSource = strings.Join(sources, ", ")
		statuses = append(statuses, status)
	}
	if agent {
		statuses = append(statuses, guestInterface("cni0", "10.250.0.1"), guestInterface("vethsim0", ""))
	}
	return statuses
}

// guestInterface returns the status of an interface that the guest has made for its pods. It has no name, since it is not in the spec.
func guestInterface(name, ip string) kubevirtv1.VirtualMachineInstanceNetworkInterface {
	status := kubevirtv1.VirtualMachineInstanceNetworkInterface{
		InterfaceName: name,
		MAC:           "0a:58:0a:fa:00:01",
		InfoSource:    infoSourceGuestAgent,
	}
	if ip != "" {
		status.IP = ip
		status.IPs = []string{ip}
	}
	return status
}

// interfaceStatus returns the current status of an interface, empty if it has none yet.
func interfaceStatus(
	instance *kubevirtv1.VirtualMachineInstance, name string,
) kubevirtv1.VirtualMachineInstanceNetworkInterface {
	for _, status := range instance.Status.Interfaces {
		if status.Name == name {
			return status
		}
	}
	return kubevirtv1.VirtualMachineInstanceNetworkInterface{}
}

// hardwareAddress returns an interface's MAC: the specified one, or else one that depends on the
// boot, like KubeVirt's random one.
func hardwareAddress(instance *kubevirtv1.VirtualMachineInstance, spec kubevirtv1.Interface) string {
	if spec.MacAddress != "" {
		return spec.MacAddress
	}
	sum := sha256.Sum256([]byte(string(instance.UID) + "/" + spec.Name))
	return net.HardwareAddr{0x02, sum[0], sum[1], sum[2], sum[3], sum[4]}.String()
}

// isPodNetwork reports whether an interface is connected to the pod network.
func isPodNetwork(instance *kubevirtv1.VirtualMachineInstance, name string) bool {
	for _, network := range instance.Spec.Networks {
		if network.Name == name {
			return network.Pod != nil
		}
	}
	return false
}

// migrationConditions determines, in virt-handler's order, whether an instance can migrate,
// with its storage or without.
func migrationConditions(instance *kubevirtv1.VirtualMachineInstance) []kubevirtv1.VirtualMachineInstanceCondition {
	live := kubevirtv1.VirtualMachineInstanceCondition{
		Type:   kubevirtv1.VirtualMachineInstanceIsMigratable,
		Status: corev1.ConditionTrue,
	}
	storage := kubevirtv1.VirtualMachineInstanceCondition{
		Type:   kubevirtv1.VirtualMachineInstanceIsStorageLiveMigratable,
		Status: corev1.ConditionTrue,
	}
	if reason, message := hostObstacle(instance); reason != "" {
		live.Status = corev1.ConditionFalse
		live.Reason = reason
		live.Message = message
		storage.Status = corev1.ConditionFalse
		storage.Reason = kubevirtv1.VirtualMachineInstanceReasonNotMigratable
		storage.Message = reason + ": " + message
	} else if message := diskObstacle(instance); message != "" {
		live.Status = corev1.ConditionFalse
		live.Message = message
		live.Reason = kubevirtv1.VirtualMachineInstanceReasonDisksNotMigratable
	}
	return []kubevirtv1.VirtualMachineInstanceCondition{live, storage}
}

// hostObstacle returns the reason and message of anything besides its disks that ties an
// instance to its host, or "".
func hostObstacle(instance *kubevirtv1.VirtualMachineInstance) (reason, message string) {
	if message := networkObstacle(instance); message != "" {
		return kubevirtv1.VirtualMachineInstanceReasonInterfaceNotMigratable, message
	}
	if message := deviceObstacle(instance); message != "" {
		return kubevirtv1.VirtualMachineInstanceReasonHostDeviceNotMigratable, message
	}
	return "", ""
}

// deviceObstacle returns why the host's devices prevent migration, or "" (pkg/virt-handler/vm.go).
func deviceObstacle(instance *kubevirtv1.VirtualMachineInstance) string {
	devices := instance.Spec.Domain.Devices
	switch {
	case len(devices.GPUs)+len(devices.HostDevices) == 0:
		return ""
	case launcherBefore(instance, "1.9"):
		return "VMI uses a PCI host devices"
	case len(devices.HostDevices) > 0:
		return "VMI specifies non-migratable generic PCI host device"
	case len(devices.GPUs) > 1:
		return "VMI specifies too many GPUs"
	}
	return "VMI specifies a GPU but feature gate VGPULiveMigration is not enabled"
}

// migrationMethod returns whether a migration would have to copy disks.
func migrationMethod(instance *kubevirtv1.VirtualMachineInstance) kubevirtv1.VirtualMachineInstanceMigrationMethod {
	for _, volume := range instance.Spec.Volumes {
		if cluster.ClaimName(volume) == "" {
			return kubevirtv1.BlockMigration // cloud-init and container disks are local to the host
		}
	}
	return kubevirtv1.LiveMigration
}

// networkObstacle returns why the interface on the pod network prevents migration, or "".
func networkObstacle(instance *kubevirtv1.VirtualMachineInstance) string {
	_, bridgeAllowed := instance.Annotations[kubevirtv1.AllowPodBridgeNetworkLiveMigrationAnnotation]
	for _, spec := range instance.Spec.Domain.Devices.Interfaces {
		if !isPodNetwork(instance, spec.Name) || spec.Masquerade != nil || spec.PasstBinding != nil || (spec.Bridge != nil && bridgeAllowed) {
			continue
		}
		return fmt.Sprintf("cannot migrate VMI which does not use masquerade%s or a migratable plugin to connect to the pod network",
			bridgeHint(instance))
	}
	return ""
}

// bridgeHint returns a part of KubeVirt's message, which 1.8 has removed (pkg/network/vmispec/interface.go).
func bridgeHint(instance *kubevirtv1.VirtualMachineInstance) string {
	if launcherBefore(instance, "1.8") {
		return fmt.Sprintf(", bridge with %s VM annotation", kubevirtv1.AllowPodBridgeNetworkLiveMigrationAnnotation)
	}
	return ""
}

// launcherBefore reports whether KubeVirt, whose version is that of the instance's launcher, is older than a minor version.
func launcherBefore(instance *kubevirtv1.VirtualMachineInstance, minor string) bool {
	_, tag, _ := strings.Cut(instance.Status.LauncherContainerImageVersion, ":")
	found, err := version.ParseGeneric(tag)
	return err == nil && found.LessThan(version.MustParseGeneric(minor))
}

// diskObstacle returns which volume prevents migration, or "".
func diskObstacle(instance *kubevirtv1.VirtualMachineInstance) string {
	shared := map[string]bool{}
	for _, status := range instance.Status.VolumeStatus {
		info := status.PersistentVolumeClaimInfo
		shared[status.Name] = info != nil && slices.Contains(info.AccessModes, corev1.ReadWriteMany)
	}
	for _, volume := range instance.Spec.Volumes {
		if claim := cluster.ClaimName(volume); claim != "" && !shared[volume.Name] {
			return fmt.Sprintf("cannot migrate VMI: PVC %s is not shared, live migration requires that all PVCs must be "+
				"shared (using ReadWriteMany access mode)", claim)
		}
	}
	return ""
}

// setInstanceCondition stores a condition; its times change only with its status.
func setInstanceCondition(
	instance *kubevirtv1.VirtualMachineInstance, condition kubevirtv1.VirtualMachineInstanceCondition, now time.Time,
) {
	condition.LastProbeTime = metav1.NewTime(now)
	condition.LastTransitionTime = metav1.NewTime(now)
	for i, current := range instance.Status.Conditions {
		if current.Type != condition.Type {
			continue
		}
		if current.Status == condition.Status {
			condition.LastProbeTime = current.LastProbeTime
			condition.LastTransitionTime = current.LastTransitionTime
		}
		instance.Status.Conditions[i] = condition
		return
	}
	instance.Status.Conditions = append(instance.Status.Conditions, condition)
}

// guestOSInfo returns the report of the simulated guest agent.
func guestOSInfo() kubevirtv1.VirtualMachineInstanceGuestOSInfo {
	return kubevirtv1.VirtualMachineInstanceGuestOSInfo{
		Name:          "Simulated Linux",
		ID:            "simulated",
		Version:       "1",
		VersionID:     "1",
		PrettyName:    "Simulated Linux 1",
		KernelRelease: "6.12.0-sim",
		KernelVersion: "#1 SMP",
		Machine:       "x86_64",
	}
}

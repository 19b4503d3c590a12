// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"regexp"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/cluster"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/kubelet"
)

// userDataSecret returns the Secret name of the first cloud-init volume, or "".
func userDataSecret(instance *kubevirtv1.VirtualMachineInstance) string {
	for _, volume := range instance.Spec.Volumes {
		var reference *corev1.LocalObjectReference
		switch {
		case volume.CloudInitNoCloud != nil:
			reference = volume.CloudInitNoCloud.UserDataSecretRef
		case volume.CloudInitConfigDrive != nil:
			reference = volume.CloudInitConfigDrive.UserDataSecretRef
		}
		if reference != nil {
			return reference.Name
		}
	}
	return ""
}

// bootstrapToken is a token that kubeadm and gardener write as <id>.<secret>.
type bootstrapToken struct {
	id, secret string
}

// findTokens returns all matches of the bootstrap token pattern in the user data.
func findTokens(pattern *regexp.Regexp, data []byte) []bootstrapToken {
	var tokens []bootstrapToken
	for _, match := range pattern.FindAllSubmatch(data, -1) {
		tokens = append(tokens, bootstrapToken{id: string(match[1]), secret: string(match[2])})
	}
	return tokens
}

// hostname returns the guest's host name, which is also the name of its Node.
func hostname(instance *kubevirtv1.VirtualMachineInstance) string {
	if instance.Spec.Hostname != "" {
		return instance.Spec.Hostname
	}
	return instance.Name
}

// identify labels and annotates a target Node with its instance and provider node.
func (g *Guests) identify(node *corev1.Node, instance *kubevirtv1.VirtualMachineInstance, userData []byte) {
	labels := kubelet.OSLabels(node.Name)
	if host, err := g.provider.Nodes.Get(instance.Status.NodeName); err == nil {
		maps.Copy(labels, kubelet.TopologyLabels(host.Labels[corev1.LabelTopologyRegion], host.Labels[corev1.LabelTopologyZone]))
	}
	maps.Copy(labels, instanceTypeLabel(instance))
	if node.Labels == nil {
		node.Labels = map[string]string{}
	}
	maps.Copy(node.Labels, labels)
	if node.Annotations == nil {
		node.Annotations = map[string]string{}
	}
	maps.Copy(node.Annotations, map[string]string{
		UserDataHashAnnotation: fmt.Sprintf("%x", sha256.Sum256(userData)),
		InstanceAnnotation:     cluster.InstanceKey(instance),
		hostAnnotation:         instance.Status.NodeName,
		diskAnnotation:         g.disk(instance),
		attachedByController:   "true",
	})
	node.Spec.ProviderID = providerIDPrefix + instance.Name
}

// instanceTypeLabel returns the label that KubeVirt's cloud-controller-manager sets on Nodes
// (cloud-provider-kubevirt's pkg/provider/instances_v2.go): none unless the guest has a namespaced
// instancetype. Cluster instancetypes do not count.
func instanceTypeLabel(instance *kubevirtv1.VirtualMachineInstance) map[string]string {
	name := instance.Annotations[kubevirtv1.InstancetypeAnnotation]
	if name == "" {
		return nil
	}
	return map[string]string{corev1.LabelInstanceTypeStable: name}
}

// setGuestStatus sets the status fields that the guest's kubelet reports besides its conditions. version
// is the kubelet's.
func setGuestStatus(node *corev1.Node, instance *kubevirtv1.VirtualMachineInstance, version string) {
	capacity := corev1.ResourceList{
		corev1.ResourceCPU:              *resource.NewQuantity(guestCPUs(instance), resource.DecimalSI),
		corev1.ResourceMemory:           guestMemory(instance),
		corev1.ResourcePods:             *resource.NewQuantity(kubelet.DefaultPods, resource.DecimalSI),
		corev1.ResourceEphemeralStorage: resource.MustParse("20Gi"),
	}
	node.Status.Capacity = capacity
	node.Status.Allocatable = capacity
	node.Status.NodeInfo = kubelet.NodeInfo(version)
	node.Status.Addresses = guestAddresses(node.Name, instance)
}

// guestAddresses returns the host name, and the IP of the interface named default.
func guestAddresses(name string, instance *kubevirtv1.VirtualMachineInstance) []corev1.NodeAddress {
	addresses := []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: name}}
	for _, status := range instance.Status.Interfaces {
		if status.Name == defaultInterface && status.IP != "" {
			addresses = append(addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: status.IP})
		}
	}
	return addresses
}

// guestCPUs returns the number of virtual CPUs.
func guestCPUs(instance *kubevirtv1.VirtualMachineInstance) int64 {
	if cpu := instance.Spec.Domain.CPU; cpu != nil {
		return int64(max(cpu.Cores, 1)) * int64(max(cpu.Sockets, 1)) * int64(max(cpu.Threads, 1))
	}
	requested := instance.Spec.Domain.Resources.Requests[corev1.ResourceCPU]
	return max(requested.Value(), 1)
}

// guestMemory returns the memory visible to the guest.
func guestMemory(instance *kubevirtv1.VirtualMachineInstance) resource.Quantity {
	if memory := instance.Spec.Domain.Memory; memory != nil && memory.Guest != nil {
		return *memory.Guest
	}
	return instance.Spec.Domain.Resources.Requests[corev1.ResourceMemory]
}

// isReady reports whether a Node's Ready condition is true.
func isReady(node *corev1.Node) bool {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

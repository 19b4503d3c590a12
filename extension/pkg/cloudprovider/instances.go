// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package cloudprovider

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	cloudprovider "k8s.io/cloud-provider"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/providercluster"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerid"
)

const (
	// primaryInterface is the name of a machine's primary interface, whose addresses come first.
	primaryInterface = "default"
	// labelInstance is a label of Nodes with the name of their machine, if it is not that of the Node.
	labelInstance = "node.kubernetes.io/instance-id"
	// maxNodeAddresses bounds the addresses of a Node, since the guest reports them.
	maxNodeAddresses = 32
)

// instances implements cloudprovider.InstancesV2.
type instances struct {
	provider *providercluster.Program
	// clusterName is the value of labelCluster. Machines without the label belong to any cluster, unless labelled is
	// set.
	clusterName string
	labelled    bool
	topology    bool
}

func newInstances(config *Config, clusterName string, provider *providercluster.Program) *instances {
	return &instances{
		provider:    provider,
		clusterName: clusterName,
		labelled:    len(config.InfraLabels) > 0,
		topology:    config.InstancesV2.ZoneAndRegionEnabled,
	}
}

// InstanceExists implements cloudprovider.InstancesV2. A machine that is shut down exists: only its
// instance is gone. Only the API server's answer that both do not exist removes a Node.
func (i *instances) InstanceExists(ctx context.Context, node *corev1.Node) (bool, error) {
	name, err := machineOf(node)
	if err != nil {
		return false, err
	}

	for _, object := range []client.Object{&kubevirtv1.VirtualMachine{}, &kubevirtv1.VirtualMachineInstance{}} {
		err := i.get(ctx, name, object)
		if !errors.Is(err, cloudprovider.InstanceNotFound) {
			return err == nil, err
		}
	}

	return false, nil
}

// InstanceShutdown implements cloudprovider.InstancesV2.
func (i *instances) InstanceShutdown(ctx context.Context, node *corev1.Node) (bool, error) {
	name, err := machineOf(node)
	if err != nil {
		return false, err
	}

	instance := &kubevirtv1.VirtualMachineInstance{}

	err = i.get(ctx, name, instance)
	if errors.Is(err, cloudprovider.InstanceNotFound) {
		return true, nil
	}

	return err == nil && instance.IsFinal(), err
}

// InstanceMetadata implements cloudprovider.InstancesV2.
func (i *instances) InstanceMetadata(ctx context.Context, node *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	name, err := machineOf(node)
	if err != nil {
		return nil, err
	}

	instance := &kubevirtv1.VirtualMachineInstance{}
	if err := i.get(ctx, name, instance); err != nil {
		return nil, err
	}

	addresses := addressesOf(instance)
	if len(addresses) == 0 {
		addresses = internalAddresses(node)
	}

	if len(addresses) == 0 {
		return nil, fmt.Errorf("machine %s has not reported an address yet; trying again", name)
	}

	metadata := &cloudprovider.InstanceMetadata{
		ProviderID:    providerid.Format(name),
		InstanceType:  labelValue(cmp.Or(instance.Annotations[kubevirtv1.InstancetypeAnnotation], instance.Annotations[kubevirtv1.ClusterInstancetypeAnnotation])),
		NodeAddresses: addresses,
	}

	if i.topology {
		metadata.Zone = labelValue(requiredTopology(instance, corev1.LabelTopologyZone))
		metadata.Region = labelValue(requiredTopology(instance, corev1.LabelTopologyRegion))
	}

	return metadata, nil
}

// get reads an object of a machine. Its error wraps cloudprovider.InstanceNotFound if the object does not exist.
func (i *instances) get(ctx context.Context, name string, object client.Object) error {
	err := i.provider.Get(ctx, client.ObjectKey{Namespace: i.provider.Namespace, Name: name}, object)
	if err == nil {
		return i.check(object)
	}

	if apierrors.IsNotFound(err) {
		return fmt.Errorf("%w: %s", cloudprovider.InstanceNotFound, name)
	}

	return providercluster.Explain(fmt.Errorf("get %T %s: %w", object, name, err))
}

// labelValue returns a value of a label of Nodes; nothing if it cannot be one: the Node could not be updated.
func labelValue(value string) string {
	if len(validation.IsValidLabelValue(value)) > 0 {
		return ""
	}

	return value
}

// check returns an error for a machine of another cluster: users of the shoot choose the names and labels of
// Nodes. Machines of programs other than the driver may lack the label.
func (i *instances) check(object client.Object) error {
	labels := object.GetLabels()
	if vm, ok := object.(*kubevirtv1.VirtualMachine); ok && vm.Spec.Template != nil {
		labels = vm.Spec.Template.ObjectMeta.Labels
	}

	if of := labels[labelCluster]; of != i.clusterName && (of != "" || i.labelled) {
		return fmt.Errorf("machine %s belongs to another cluster: its label %s is not %s", object.GetName(), labelCluster, i.clusterName)
	}

	return nil
}

// machineOf returns the name of a Node's machine.
func machineOf(node *corev1.Node) (string, error) {
	if node.Spec.ProviderID == "" {
		return cmp.Or(node.Labels[labelInstance], node.Name), nil
	}

	name, err := providerid.Parse(node.Spec.ProviderID)
	if err != nil {
		return "", fmt.Errorf("provider ID of Node %s: %w", node.Name, err)
	}

	return name, nil
}

// addressesOf returns the addresses of a machine's own interfaces, the primary one first. The guest agent
// also reports interfaces that are inside the machine only, such as those of its pods; they have no name.
func addressesOf(instance *kubevirtv1.VirtualMachineInstance) []corev1.NodeAddress {
	var addresses []corev1.NodeAddress

	names := []string{primaryInterface}
	for _, i := range instance.Spec.Domain.Devices.Interfaces {
		if i.Name != primaryInterface {
			names = append(names, i.Name)
		}
	}

	for _, name := range names {
		for _, reported := range instance.Status.Interfaces {
			if reported.Name == name {
				addresses = appendAddresses(addresses, append(slices.Clone(reported.IPs), reported.IP))
			}
		}
	}

	return addresses
}

// appendAddresses appends those of the IPs by which other Nodes can reach a machine.
func appendAddresses(addresses []corev1.NodeAddress, ips []string) []corev1.NodeAddress {
	for _, ip := range ips {
		parsed, err := netip.ParseAddr(ip)
		address := corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: ip}

		if err == nil && parsed.IsGlobalUnicast() && parsed.Zone() == "" && len(addresses) < maxNodeAddresses && !slices.Contains(addresses, address) {
			addresses = append(addresses, address)
		}
	}

	return addresses
}

// internalAddresses returns the addresses that a Node has: an instance that begins to run reports none.
func internalAddresses(node *corev1.Node) []corev1.NodeAddress {
	return slices.DeleteFunc(slices.Clone(node.Status.Addresses), func(a corev1.NodeAddress) bool { return a.Type != corev1.NodeInternalIP })
}

// requiredTopology returns the only value of a label that a machine allows for its provider node; empty if
// it allows several.
func requiredTopology(instance *kubevirtv1.VirtualMachineInstance, label string) string {
	if value := instance.Spec.NodeSelector[label]; value != "" {
		return value
	}

	affinity := instance.Spec.Affinity
	if affinity == nil || affinity.NodeAffinity == nil || affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return ""
	}

	values := sets.New[string]()

	for _, term := range affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		value := "" // The terms are alternatives.

		for _, r := range term.MatchExpressions {
			if r.Key == label && r.Operator == corev1.NodeSelectorOpIn && len(r.Values) == 1 {
				value = r.Values[0]
			}
		}

		values.Insert(value)
	}

	value, _ := values.PopAny()
	if values.Len() > 0 {
		return ""
	}

	return value
}

// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package cloudprovider

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/providercluster"
)

// endpointsManager is the value of discoveryv1.LabelManagedBy of the EndpointSlices of this program.
const endpointsManager = "kubevirt-cloud-controller-manager"

// maxEndpoints is the maximum number of endpoints in an EndpointSlice (k8s.io/kubernetes,
// pkg/apis/discovery/validation).
const maxEndpoints = 1000

// machines are those with endpoints of a Service. The value is set for those with a ready endpoint: others
// serve existing connections, and new ones if no endpoint of the machine is ready.
type machines map[string]bool

// launcher is the pod of a running machine. Its addresses come from the provider cluster: those that a guest
// reports could be any.
type launcher struct {
	machine, name, host string
	uid                 types.UID
	ips                 []string
}

// settleEndpoints makes the endpoints of a load balancer what its Service wants. The provider cluster selects
// those of the policy Cluster. When the policy changes to it, those of this program are removed, and only then
// the annotation, so that another process goes on after the end of this one.
func (b *loadBalancers) settleEndpoints(ctx context.Context, service, balancer *corev1.Service) error {
	if b.config.Selectorless || balancer.Annotations[annotationEndpoints] == "" {
		return nil
	}

	if !isLocal(service) {
		if err := b.writeEndpoints(ctx, balancer, nil); err != nil {
			return explain(err)
		}

		delete(balancer.Annotations, annotationEndpoints)

		return explain(b.provider.Update(ctx, balancer))
	}

	serving, err := b.endpoints(service)
	if err != nil {
		return err
	}

	launchers, err := b.launchers(ctx)
	if err != nil {
		return fmt.Errorf("list the pods of the machines: %w", explain(err))
	}

	return explain(b.writeEndpoints(ctx, balancer, slicesOf(balancer, serving, launchers)))
}

// writeEndpoints makes the EndpointSlices of a load balancer the desired ones. Without a selector, those of the
// provider cluster's controllers from before would remain: they are deleted, too.
func (b *loadBalancers) writeEndpoints(ctx context.Context, balancer *corev1.Service, desired []*discoveryv1.EndpointSlice) error {
	existing, err := b.existingEndpoints(ctx, balancer)
	if err != nil {
		return err
	}

	byName := map[string]*discoveryv1.EndpointSlice{}
	for i := range existing {
		if existing[i].Labels[discoveryv1.LabelManagedBy] == endpointsManager || len(balancer.Spec.Selector) == 0 {
			byName[existing[i].Name] = &existing[i]
		}
	}

	for _, slice := range desired {
		if err := b.writeSlice(ctx, slice, byName[slice.Name]); err != nil {
			return err
		}

		delete(byName, slice.Name)
	}

	for _, slice := range byName {
		if err := b.deleteSlice(ctx, balancer, slice); err != nil {
			return err
		}
	}

	return nil
}

// deleteSlice deletes an EndpointSlice; if it is one of the provider cluster's controllers, the Endpoints first,
// from which it would be mirrored again.
func (b *loadBalancers) deleteSlice(ctx context.Context, balancer *corev1.Service, slice *discoveryv1.EndpointSlice) error {
	if slice.Labels[discoveryv1.LabelManagedBy] != endpointsManager {
		endpoints := &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Namespace: balancer.Namespace, Name: balancer.Name}} //nolint:staticcheck // The controllers of provider clusters still write them.
		if err := b.provider.Delete(ctx, endpoints); client.IgnoreNotFound(err) != nil {
			return err
		}
	}

	return client.IgnoreNotFound(b.provider.Delete(ctx, slice))
}

// writeSlice creates or updates an EndpointSlice; existing is nil if it does not exist.
func (b *loadBalancers) writeSlice(ctx context.Context, desired, existing *discoveryv1.EndpointSlice) error {
	if existing == nil {
		return b.provider.Create(ctx, desired)
	}

	updated := existing.DeepCopy()
	updated.Labels = desired.Labels
	updated.OwnerReferences = desired.OwnerReferences
	updated.Ports = desired.Ports
	updated.Endpoints = desired.Endpoints

	if equality.Semantic.DeepEqual(updated, existing) {
		return nil
	}

	return b.provider.Update(ctx, updated)
}

func (b *loadBalancers) existingEndpoints(ctx context.Context, balancer *corev1.Service) ([]discoveryv1.EndpointSlice, error) {
	return providercluster.Collect(ctx, &b.provider.Cluster, &discoveryv1.EndpointSliceList{},
		func(s *discoveryv1.EndpointSlice) (discoveryv1.EndpointSlice, bool) {
			s.ManagedFields = nil

			return *s, true
		},
		client.InNamespace(balancer.Namespace), client.MatchingLabels{discoveryv1.LabelServiceName: balancer.Name})
}

// launchers returns the pods of the cluster's machines that are ready, as a selector of a Service would.
func (b *loadBalancers) launchers(ctx context.Context) ([]launcher, error) {
	return providercluster.Collect(ctx, &b.provider.Cluster, &corev1.PodList{},
		func(pod *corev1.Pod) (launcher, bool) { l := launcherOf(pod); return l, len(l.ips) > 0 },
		client.InNamespace(b.provider.Namespace), client.MatchingLabels(b.machineLabels()))
}

// launcherOf returns what is of use of a launcher pod; no addresses unless the machine runs in it. During a
// live migration, the target pod is not ready.
func launcherOf(pod *corev1.Pod) launcher {
	owner := metav1.GetControllerOf(pod)
	if owner == nil || owner.Kind != kubevirtv1.VirtualMachineInstanceGroupVersionKind.Kind {
		return launcher{}
	}

	l := launcher{machine: owner.Name, name: pod.Name, uid: pod.UID, host: pod.Spec.NodeName}
	ready := slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})

	if ready && pod.DeletionTimestamp == nil {
		for _, ip := range pod.Status.PodIPs {
			l.ips = append(l.ips, ip.IP)
		}
	}

	return l
}

// slicesOf returns the EndpointSlices of a load balancer, one for each of its IP families.
func slicesOf(balancer *corev1.Service, serving machines, launchers []launcher) []*discoveryv1.EndpointSlice {
	var all []*discoveryv1.EndpointSlice

	for _, family := range balancer.Spec.IPFamilies {
		slice := &discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: balancer.Namespace,
				Name:      balancer.Name + "-" + strings.ToLower(string(family)),
				Labels:    sliceLabels(balancer),
				OwnerReferences: []metav1.OwnerReference{{
					APIVersion: "v1",
					Kind:       "Service",
					Name:       balancer.Name,
					UID:        balancer.UID,
					Controller: ptr.To(true),
				}},
			},
			AddressType: discoveryv1.AddressType(family),
			Ports:       slicePorts(balancer),
		}

		for _, l := range launchers {
			ready, serves := serving[l.machine]
			if address := addressOf(l, family); serves && address != "" && len(slice.Endpoints) < maxEndpoints {
				slice.Endpoints = append(slice.Endpoints, endpointOf(balancer.Namespace, l, address, ready))
			}
		}

		slices.SortFunc(slice.Endpoints, func(a, b discoveryv1.Endpoint) int { return strings.Compare(a.Addresses[0], b.Addresses[0]) })
		all = append(all, slice)
	}

	return all
}

func sliceLabels(balancer *corev1.Service) map[string]string {
	labels := maps.Clone(balancer.Labels)
	labels[discoveryv1.LabelServiceName] = balancer.Name
	labels[discoveryv1.LabelManagedBy] = endpointsManager

	return labels
}

func slicePorts(balancer *corev1.Service) []discoveryv1.EndpointPort {
	ports := make([]discoveryv1.EndpointPort, 0, len(balancer.Spec.Ports))
	for _, port := range balancer.Spec.Ports {
		ports = append(ports, discoveryv1.EndpointPort{
			Name:        ptr.To(port.Name),
			Protocol:    ptr.To(port.Protocol),
			Port:        ptr.To(port.TargetPort.IntVal),
			AppProtocol: port.AppProtocol,
		})
	}

	return ports
}

// addressOf returns the address of a pod in a family; empty if it has none.
func addressOf(l launcher, family corev1.IPFamily) string {
	for _, ip := range l.ips {
		if address, err := netip.ParseAddr(ip); err == nil && address.Is6() == (family == corev1.IPv6Protocol) {
			return ip
		}
	}

	return ""
}

// endpointOf returns the endpoint of a machine. Load balancers and provider nodes use its host for the policy
// Local of their own.
func endpointOf(namespace string, l launcher, address string, ready bool) discoveryv1.Endpoint {
	return discoveryv1.Endpoint{
		Addresses: []string{address},
		Conditions: discoveryv1.EndpointConditions{
			Ready:       ptr.To(ready),
			Serving:     ptr.To(true),
			Terminating: ptr.To(!ready),
		},
		NodeName:  ptr.To(l.host),
		TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: namespace, Name: l.name, UID: l.uid},
	}
}

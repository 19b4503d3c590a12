// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package cloudprovider

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

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

const (
	// maxEndpoints is the number of endpoints in an EndpointSlice. The response to a write, with the longest names that
	// there are, stays within what the connection accepts; so does that of Kubernetes' own controller.
	maxEndpoints = 100
	// maxAddresses is the number of addresses of a pod: one of each IP family.
	maxAddresses = 2
)

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

// handover is the time between attempts to remove the endpoints of this program, after the policy has changed to
// Cluster, or those of the provider cluster's controllers, which may write some that they had begun with.
const handover = 2 * time.Second

// hasEndpoints reports whether this program provides the endpoints of a Service's load balancer: the provider cluster
// selects those of the policy Cluster.
func (b *loadBalancers) hasEndpoints(service *corev1.Service) bool {
	return isLocal(service) && !b.config.Selectorless
}

// writeEndpoints creates and updates the EndpointSlices that a load balancer needs, and returns the others.
func (b *loadBalancers) writeEndpoints(ctx context.Context, service, balancer *corev1.Service) (surplus []discoveryv1.EndpointSlice, _ error) {
	serving, err := b.serving(service)
	if err != nil {
		return nil, err
	}

	launchers, err := b.launchers(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the pods of the machines: %w", explain(err))
	}

	existing, err := b.existingEndpoints(ctx, balancer)
	if err != nil {
		return nil, explain(err)
	}

	byName := map[string]*discoveryv1.EndpointSlice{}
	for i := range existing {
		byName[existing[i].Name] = &existing[i]
	}

	for _, slice := range slicesOf(balancer, serving, launchers) {
		if err := b.writeSlice(ctx, slice, byName[slice.Name]); err != nil {
			return nil, explain(err)
		}

		delete(byName, slice.Name)
	}

	return slices.DeleteFunc(existing, func(s discoveryv1.EndpointSlice) bool { return byName[s.Name] == nil }), nil
}

// removeEndpoints deletes the EndpointSlices of this program after the policy has changed to Cluster, as soon as the
// provider cluster's controllers have ready endpoints, and only then the annotation, so that another process goes on
// after the end of this one.
func (b *loadBalancers) removeEndpoints(ctx context.Context, service, balancer *corev1.Service) error {
	if b.config.Selectorless || balancer.Annotations[annotationEndpoints] == "" {
		return nil
	}

	existing, err := b.existingEndpoints(ctx, balancer)
	if err != nil {
		return explain(err)
	}

	for _, slice := range existing {
		if !isOwn(&slice) {
			continue
		}

		if len(slice.Endpoints) > 0 && !isReplaced(&slice, existing) {
			b.again(service, handover)

			return nil
		}

		if err := b.deleteSlice(ctx, balancer, &slice); err != nil {
			return explain(err)
		}
	}

	delete(balancer.Annotations, annotationEndpoints)

	return explain(b.provider.Update(ctx, balancer))
}

func isOwn(slice *discoveryv1.EndpointSlice) bool {
	return slice.Labels[discoveryv1.LabelManagedBy] == endpointsManager
}

// isReplaced reports whether the provider cluster's controllers have a ready endpoint in the family of a slice.
func isReplaced(own *discoveryv1.EndpointSlice, all []discoveryv1.EndpointSlice) bool {
	return slices.ContainsFunc(all, func(slice discoveryv1.EndpointSlice) bool {
		return !isOwn(&slice) && slice.AddressType == own.AddressType && slices.ContainsFunc(slice.Endpoints, isReady)
	})
}

func isReady(endpoint discoveryv1.Endpoint) bool { return ptr.Deref(endpoint.Conditions.Ready, true) }

// deleteSlice deletes an EndpointSlice; if it is one of the provider cluster's controllers, the Endpoints first,
// from which it would be mirrored again.
func (b *loadBalancers) deleteSlice(ctx context.Context, balancer *corev1.Service, slice *discoveryv1.EndpointSlice) error {
	if !isOwn(slice) {
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
		for _, ip := range pod.Status.PodIPs[:min(len(pod.Status.PodIPs), maxAddresses)] {
			l.ips = append(l.ips, ip.IP)
		}
	}

	return l
}

// slicesOf returns the EndpointSlices of a load balancer: at least one for each of its IP families, so that the
// provider cluster knows that it has no endpoints.
func slicesOf(balancer *corev1.Service, serving machines, launchers []launcher) []*discoveryv1.EndpointSlice {
	var all []*discoveryv1.EndpointSlice

	for _, family := range balancer.Spec.IPFamilies {
		var endpoints []discoveryv1.Endpoint

		for _, l := range launchers {
			ready, serves := serving[l.machine]
			if address := addressOf(l, family); serves && address != "" {
				endpoints = append(endpoints, endpointOf(balancer.Namespace, l, address, ready))
			}
		}

		slices.SortFunc(endpoints, func(a, b discoveryv1.Endpoint) int { return strings.Compare(a.Addresses[0], b.Addresses[0]) })

		name := balancer.Name + "-" + strings.ToLower(string(family))
		first := endpoints[:min(len(endpoints), maxEndpoints)]
		all = append(all, sliceOf(balancer, family, name, first))

		for i := maxEndpoints; i < len(endpoints); i += maxEndpoints {
			next := endpoints[i:min(i+maxEndpoints, len(endpoints))]
			all = append(all, sliceOf(balancer, family, fmt.Sprintf("%s-%d", name, i/maxEndpoints), next))
		}
	}

	return all
}

func sliceOf(balancer *corev1.Service, family corev1.IPFamily, name string, endpoints []discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: balancer.Namespace,
			Name:      name,
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
		Endpoints:   endpoints,
	}
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
		if familyOf(ip) == family {
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

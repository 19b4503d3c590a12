// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package infrastructure

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	providerspec "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/kubevirt"
)

// Networks that are not public: IPv4 private, carrier-grade NAT and link-local addresses, IPv6
// unique local and link-local addresses (RFC 1918, 6598, 3927, 4193, 4291).
var (
	privateV4 = []string{"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "169.254.0.0/16"}
	privateV6 = []string{"fc00::/7", "fe80::/10"}
)

// reconcileIsolation writes the NetworkPolicy of the shoot's machines, or deletes it if it is not
// configured.
func (f *flow) reconcileIsolation(ctx context.Context) error {
	if f.config.Isolation == nil || !f.config.Isolation.Enabled {
		return f.deleteIsolation(ctx)
	}

	desired := f.networkPolicy()
	existing := &networkingv1.NetworkPolicy{}

	err := f.provider.Get(ctx, client.ObjectKeyFromObject(desired), existing)
	if apierrors.IsNotFound(err) {
		return wrap(f.provider.Create(ctx, desired), "create NetworkPolicy %s", desired.Name)
	}

	if err != nil {
		return fmt.Errorf("get NetworkPolicy %s: %w", desired.Name, err)
	}

	if err := f.owner.Check("NetworkPolicy "+client.ObjectKeyFromObject(existing).String(), existing); err != nil {
		return err
	}

	if !f.owner.Adopt(existing) && equality.Semantic.DeepEqual(existing.Spec, desired.Spec) {
		return nil
	}

	existing.Spec = desired.Spec

	return wrap(f.provider.Update(ctx, existing), "update NetworkPolicy %s", desired.Name)
}

// deleteIsolation deletes the NetworkPolicies of the shoot, except for those of bastions.
func (f *flow) deleteIsolation(ctx context.Context) error {
	used := f.config.Isolation != nil && f.config.Isolation.Enabled

	return f.deleteOwned(ctx, networkingv1.SchemeGroupVersion.WithKind("NetworkPolicy"), "NetworkPolicies", used, func(p *metav1.PartialObjectMetadata) bool {
		return p.Labels[kubevirt.LabelBastion] == ""
	})
}

// networkPolicy returns the policy of the pods of the shoot's machines.
func (f *flow) networkPolicy() *networkingv1.NetworkPolicy {
	machines := metav1.LabelSelector{MatchLabels: map[string]string{providerspec.TagCluster: f.owner.TechnicalID}}
	ofShoot := networkingv1.NetworkPolicyPeer{PodSelector: &machines}
	allowed := []networkingv1.NetworkPolicyPeer{ofShoot}
	bastions := networkingv1.NetworkPolicyPeer{PodSelector: &metav1.LabelSelector{
		MatchLabels:      f.owner.Labels(),
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: kubevirt.LabelBastion, Operator: metav1.LabelSelectorOpExists}},
	}}

	for _, cidr := range f.config.Isolation.AllowedCIDRs {
		allowed = append(allowed, networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: cidr}})
	}

	return &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: f.owner.TechnicalID + "-isolation", Labels: f.owner.Labels()},
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: machines,
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress},
			Ingress: []networkingv1.NetworkPolicyIngressRule{
				{From: allowed},
				{Ports: nodePorts()}, // load balancers of the provider cluster
				{From: []networkingv1.NetworkPolicyPeer{bastions}, Ports: []networkingv1.NetworkPolicyPort{{Protocol: ptr.To(corev1.ProtocolTCP), Port: ptr.To(intstr.FromInt32(22))}}},
			},
			Egress: []networkingv1.NetworkPolicyEgressRule{
				{To: allowed},
				{Ports: ports(53, 53)}, // DNS of the provider cluster
				{To: []networkingv1.NetworkPolicyPeer{
					{IPBlock: &networkingv1.IPBlock{CIDR: "0.0.0.0/0", Except: privateV4}},
					{IPBlock: &networkingv1.IPBlock{CIDR: "::/0", Except: privateV6}},
				}},
			},
		},
	}
}

// nodePorts are the default ports of Services of type NodePort and LoadBalancer.
func nodePorts() []networkingv1.NetworkPolicyPort { return ports(30000, 32767) }

func ports(first, last int32) []networkingv1.NetworkPolicyPort {
	var all []networkingv1.NetworkPolicyPort

	for _, protocol := range []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP} {
		port := networkingv1.NetworkPolicyPort{Protocol: &protocol, Port: ptr.To(intstr.FromInt32(first))}
		if last > first {
			port.EndPort = &last
		}

		all = append(all, port)
	}

	return all
}

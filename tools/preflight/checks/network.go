// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"context"
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

const (
	// discontinuedPlugin is the name of the plugin before passtBinding was a field of KubeVirt's API.
	discontinuedPlugin = "passt"
	// injector is part of the names of the webhook that requests the resources of a pod's networks
	// (https://github.com/k8snetworkplumbingwg/network-resources-injector).
	injector = "network-resources-injector"
	// resourceOfNetwork is the annotation of a NetworkAttachmentDefinition with the resource of the
	// nodes that have the network.
	resourceOfNetwork = "k8s.v1.cni.cncf.io/resourceName"
)

// checkNetworks checks that the definitions of the machine's Multus networks exist, and that a
// component requests the resources that they name.
func checkNetworks(ctx context.Context, r *reader, c *class) []Result {
	var (
		results  []Result
		requests bool
	)

	for i, network := range c.instance().Networks {
		if network.Multus == nil {
			continue
		}

		// Parsed as in KubeVirt (pkg/network/vmispec).
		namespace, name, named := strings.Cut(network.Multus.NetworkName, "/")
		if !named {
			namespace = c.namespace
			name = network.Multus.NetworkName
		}

		field := c.field(fmt.Sprintf("spec.template.spec.networks[%d]", i)) + ".name"
		definition, found := existence(ctx, r, &reference{kindNetwork, namespace, name, field})
		results = append(results, found...)
		requests = requests || hasSRIOV(c.instance(), network.Name) || definition != nil && definition.GetAnnotations()[resourceOfNetwork] != ""
	}

	kubeVirt, err := r.kubeVirt(ctx)
	if err != nil {
		return results
	}

	if requests && gateExternalNetResources.on(kubeVirt) {
		results = append(results, checkInjector(ctx, r)...)
	}

	return append(results, checkBindings(r, c, kubeVirt)...)
}

// checkBindings checks that KubeVirt has the bindings of the machine's interfaces.
func checkBindings(r *reader, c *class, kubeVirt *kubevirtv1.KubeVirt) []Result {
	const remedy = "; or choose another binding in networks of the providerSpec"

	var results []Result

	plugins := ptr.Deref(kubeVirt.Spec.Configuration.NetworkConfiguration, kubevirtv1.NetworkConfiguration{}).Binding
	s := r.about("network bindings")

	for _, i := range c.instance().Domain.Devices.Interfaces {
		if i.PasstBinding != nil && !gatePasstBinding.on(kubeVirt) {
			results = append(results, s.fail("KubeVirt has passtBinding since 1.8, and its feature gate PasstBinding is off",
				"enable the gate in spec.configuration.developerConfiguration.featureGates of the KubeVirt resource"+remedy)...)
		}

		if i.Binding == nil {
			continue
		}

		_, registered := plugins[i.Binding.Name]

		switch {
		case registered:
		case i.Binding.Name == discontinuedPlugin:
			results = append(results, s.fail("the KubeVirt resource has no network binding plugin "+i.Binding.Name+", which KubeVirt 1.8 has replaced",
				"set passtBinding: {} instead of binding in networks of the providerSpec, for KubeVirt 1.8 and later")...)
		default:
			results = append(results, s.fail("the KubeVirt resource has no network binding plugin "+i.Binding.Name,
				"register it in spec.configuration.network.binding of the KubeVirt resource"+remedy)...)
		}
	}

	return results
}

// hasSRIOV reports whether a network is a device, whose definition names a resource even if it cannot
// be read.
func hasSRIOV(instance *kubevirtv1.VirtualMachineInstanceSpec, network string) bool {
	return slices.ContainsFunc(instance.Domain.Devices.Interfaces, func(i kubevirtv1.Interface) bool {
		return i.Name == network && i.SRIOV != nil
	})
}

// checkInjector checks that a webhook requests the resources of networks. Since KubeVirt 1.9,
// virt-controller does not (pkg/virt-controller/services/template.go).
func checkInjector(ctx context.Context, r *reader) []Result {
	const list = "kubectl get mutatingwebhookconfigurations"

	s := r.about("resources of Multus networks")

	webhooks, err := r.webhooks(ctx)
	if err != nil {
		return s.notChecked(err, list)
	}

	if slices.ContainsFunc(webhooks, isInjector) {
		return s.ok("are requested by the " + injector)
	}

	return s.warn("neither KubeVirt nor a "+injector+" requests the networks' devices: "+
		"machines may be scheduled to nodes without a free device or without the network, and fail there or have no connection",
		"install the "+injector+", or disable the gate "+gateExternalNetResources.name+
			" in spec.configuration.developerConfiguration.disabledFeatureGates of the KubeVirt resource; then check: "+list)
}

// isInjector reports whether a configuration has a webhook for pods, and it or the webhook has the
// injector's name.
func isInjector(configuration admissionregistrationv1.MutatingWebhookConfiguration) bool {
	return slices.ContainsFunc(configuration.Webhooks, func(w admissionregistrationv1.MutatingWebhook) bool {
		isNamed := strings.Contains(configuration.Name, injector) || strings.Contains(w.Name, injector)

		return isNamed && slices.ContainsFunc(w.Rules, func(r admissionregistrationv1.RuleWithOperations) bool {
			return slices.ContainsFunc(r.Resources, func(of string) bool { return slices.Contains([]string{"pods", "*", "*/*"}, of) })
		})
	})
}

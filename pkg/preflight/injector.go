package preflight

import (
	"context"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// injector is part of the names of the webhook that requests the devices of a pod's networks
// (https://github.com/k8snetworkplumbingwg/network-resources-injector).
const injector = "network-resources-injector"

// checkInjector checks that a component requests the devices of SR-IOV networks. Since KubeVirt 1.9,
// virt-controller leaves that to a webhook (pkg/virt-controller/services/template.go).
func (c *classChecker) checkInjector(ctx context.Context) []Result {
	if !c.hasSRIOV() || !c.on(gateExternalNetResources) {
		return nil
	}

	const list = "kubectl get mutatingwebhookconfigurations"

	s := c.about(checkNetwork, "devices of SR-IOV networks")

	webhooks, err := listFew[admissionregistrationv1.MutatingWebhookConfiguration](ctx,
		c.viewer.clients.Kubernetes.AdmissionregistrationV1().MutatingWebhookConfigurations())
	if err != nil {
		return s.notChecked(err, list)
	}

	if slices.ContainsFunc(webhooks, isInjector) {
		return s.ok("are requested by the " + injector)
	}

	return s.warn("KubeVirt does not request them, and no webhook is named "+injector+": machines may be placed on nodes without a free device, and fail there",
		"install the "+injector+", or disable the gate "+gateExternalNetResources.name+
			" in spec.configuration.developerConfiguration.disabledFeatureGates of the KubeVirt resource; then check: "+list)
}

func (c *classChecker) hasSRIOV() bool {
	return slices.ContainsFunc(c.vm.Spec.Template.Spec.Domain.Devices.Interfaces, func(i kubevirtv1.Interface) bool { return i.SRIOV != nil })
}

// isInjector reports whether a configuration, or one of its webhooks, has the injector's name.
func isInjector(configuration admissionregistrationv1.MutatingWebhookConfiguration) bool {
	return strings.Contains(configuration.Name, injector) ||
		slices.ContainsFunc(configuration.Webhooks, func(w admissionregistrationv1.MutatingWebhook) bool { return strings.Contains(w.Name, injector) })
}

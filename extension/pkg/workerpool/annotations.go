// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package workerpool

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ValidateAnnotations returns an error for each annotation of a machine's pod with which the network plugin of the provider
// cluster would connect the machine to another network, such as that of another shoot: KubeVirt copies the annotations of a
// virtual machine to its pod. It is separate from ProviderSpec, since machines with such annotations may exist: used has those
// that machines of the shoot have, as KEY=VALUE. The errors contain the values, so that another value is another error.
func (p *Pool) ValidateAnnotations(used sets.Set[string]) field.ErrorList {
	template := p.Config.VirtualMachineTemplate
	if template == nil || template.Spec.Template == nil {
		return nil
	}

	var errs field.ErrorList

	annotations := template.Spec.Template.Metadata.Annotations
	path := p.path.Child("providerConfig", "virtualMachineTemplate", "spec", "template", "metadata", "annotations")

	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		if connects(key) && !used.Has(key+"="+annotations[key]) {
			errs = append(errs, field.Invalid(path.Key(key), annotations[key],
				"the network plugin of the provider cluster reads it; remove it, and use infrastructureConfig.networks"))
		}
	}

	return errs
}

// connects reports whether Kube-OVN or OVN-Kubernetes reads an annotation. Kube-OVN has those of the primary interface
// with ovn.kubernetes.io, and those of others with the provider of their network, such as NAME.NAMESPACE.ovn.kubernetes.io;
// as an IPAM plugin, with NAME.NAMESPACE.kubernetes.io.
func connects(key string) bool {
	domain, name, _ := strings.Cut(key, "/")

	switch {
	case domain == "k8s.ovn.org" || strings.HasSuffix(domain, ".k8s.ovn.org"):
		return true
	case domain == "ovn.kubernetes.io" || strings.HasSuffix(domain, ".ovn.kubernetes.io"):
		return true
	default:
		return strings.HasSuffix(domain, ".kubernetes.io") && slices.Contains(kubeOVNAnnotations, name)
	}
}

// kubeOVNAnnotations choose the network and the addresses of an interface (Kube-OVN, pkg/util/const.go).
var kubeOVNAnnotations = []string{"logical_switch", "logical_router", "vpc", "ip_pool", "ip_address", "mac_address", "cidr", "gateway", "routes", "vip", "security_groups"}

// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package workerpool

import (
	"maps"
	"regexp"
	"slices"

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
		if connecting.MatchString(key) && !used.Has(key+"="+annotations[key]) {
			errs = append(errs, field.Invalid(path.Key(key), annotations[key],
				"the network plugin of the provider cluster reads it; remove it, and use infrastructureConfig.networks"))
		}
	}

	return errs
}

// connecting are the annotations that Kube-OVN or OVN-Kubernetes reads. Kube-OVN has those of the primary interface with
// ovn.kubernetes.io, and those of others with the provider of their network, such as NAME.NAMESPACE.ovn.kubernetes.io; as an
// IPAM plugin, with NAME.NAMESPACE.kubernetes.io (pkg/util/const.go). kubernetes/provider-cluster has the same expression.
var connecting = regexp.MustCompile(`^(.+[.])?(k8s[.]ovn[.]org|ovn[.]kubernetes[.]io)/|` +
	`[.]kubernetes[.]io/(logical_switch|logical_router|vpc|ip_pool|ip_address|mac_address|cidr|gateway|routes|vip|security_groups)$`)

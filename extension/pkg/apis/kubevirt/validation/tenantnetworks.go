// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
)

// tenantNetworkTypes are all types of tenant networks.
var tenantNetworkTypes = []api.TenantNetworkType{api.TenantNetworkConfig, api.TenantNetworkKubeOVN, api.TenantNetworkOVN}

// ValidateTenantNetworkTypes returns the errors of CloudProfileConfig.tenantNetworks.
func ValidateTenantNetworkTypes(types []api.TenantNetworkType, path *field.Path) field.ErrorList {
	var errs field.ErrorList

	for i, t := range types {
		if !slices.Contains(tenantNetworkTypes, t) {
			errs = append(errs, field.NotSupported(path.Index(i), t, tenantNetworkTypes))
		}
	}

	return errs
}

// ValidateTenantNetworks returns an error for each tenant network that is new or has another content than before, and whose
// type the CloudProfile does not allow, or whose configuration reaches networks of other shoots. allowed is nil for all
// types.
func ValidateTenantNetworks(networks, old []api.TenantNetwork, allowed []api.TenantNetworkType, path *field.Path) field.ErrorList {
	var errs field.ErrorList

	for i := range networks {
		if slices.ContainsFunc(old, func(o api.TenantNetwork) bool { return o.Name == networks[i].Name && sameContent(&o, &networks[i]) }) {
			continue
		}

		if detail := NotAllowed(&networks[i], allowed); detail != "" {
			errs = append(errs, field.Forbidden(path.Index(i), detail))
		}
	}

	return errs
}

func sameContent(a, b *api.TenantNetwork) bool {
	return a.Type() == b.Type() && rangeOf(a) == rangeOf(b) && a.Config == b.Config
}

// NotAllowed returns why a shoot must not create a tenant network; empty if it may.
func NotAllowed(network *api.TenantNetwork, allowed []api.TenantNetworkType) string {
	t := network.Type()

	if plugin := sharedPlugin(network.Config); plugin != "" {
		return fmt.Sprintf("a configuration of the CNI plugin %s can name the networks of other shoots; use ovn or kubeOVN instead of config", plugin)
	}

	if t == "" || allowed == nil || slices.Contains(allowed, t) { // A network without a type has another error.
		return ""
	}

	remedy := "use a network of its providerConfig.sharedNetworks"

	if len(allowed) > 0 {
		names := make([]string, len(allowed))
		for i, t := range allowed {
			names[i] = string(t)
		}

		remedy = "use " + strings.Join(names, " or ")
	}

	return fmt.Sprintf("the CloudProfile does not allow tenant networks with %s; %s, or ask the operator to add it to providerConfig.tenantNetworks", t, remedy)
}

// sharedPlugin returns the CNI or IPAM plugin of a CNI configuration that joins a network of the whole provider cluster by
// its name, whichever shoot owns it; empty if there is none.
func sharedPlugin(config string) string {
	var content any
	if json.Unmarshal([]byte(config), &content) != nil {
		return "" // It has another error.
	}

	return sharedPluginIn(content)
}

func sharedPluginIn(content any) string {
	switch value := content.(type) {
	case []any:
		for _, item := range value {
			if plugin := sharedPluginIn(item); plugin != "" {
				return plugin
			}
		}
	case map[string]any:
		for key, item := range value {
			// CNI's libraries ignore the case of keys.
			if name, isText := item.(string); isText && strings.EqualFold(key, "type") && slices.Contains([]string{"kube-ovn", "ovn-k8s-cni-overlay"}, name) {
				return name
			}

			if plugin := sharedPluginIn(item); plugin != "" {
				return plugin
			}
		}
	}

	return ""
}

func validateTenantNetworks(networks []api.TenantNetwork, path *field.Path) field.ErrorList {
	var errs field.ErrorList

	names := sets.New[string]()
	defaults := 0

	for i, n := range networks {
		path := path.Index(i)
		errs = append(errs, validateName(n.Name, path.Child("name"))...)

		if names.Has(n.Name) {
			errs = append(errs, field.Duplicate(path.Child("name"), n.Name))
		}

		errs = append(errs, validateTenantNetwork(&n, path)...)

		if n.Default {
			if defaults++; defaults > 1 {
				errs = append(errs, field.Forbidden(path.Child("default"), "another network is already the default; set default for one network only"))
			}
		}

		errs = append(errs, validateAttachment(n.Attachment, n.Default, path)...)
		names.Insert(n.Name)
	}

	return errs
}

// validateTenantNetwork returns the errors of the part of a network that depends on its type.
func validateTenantNetwork(n *api.TenantNetwork, path *field.Path) field.ErrorList {
	var fields []string

	for _, t := range []struct {
		name api.TenantNetworkType
		set  bool
	}{{api.TenantNetworkConfig, n.Config != ""}, {api.TenantNetworkKubeOVN, n.KubeOVN != nil}, {api.TenantNetworkOVN, n.OVN != nil}} {
		if t.set {
			fields = append(fields, string(t.name))
		}
	}

	switch {
	case len(fields) > 1:
		return field.ErrorList{field.Forbidden(path.Child(fields[1]), fields[0]+" is already set; set one of config, kubeOVN and ovn")}
	case n.KubeOVN != nil:
		return validateVirtualNetwork(n, n.KubeOVN, path)
	case n.OVN != nil:
		return validateVirtualNetwork(n, n.OVN, path)
	}

	if err := validateCNIConfig(n.Config); err != nil {
		return field.ErrorList{field.Invalid(path.Child("config"), field.OmitValueType{}, err.Error())}
	}

	return nil
}

func validateVirtualNetwork(n *api.TenantNetwork, network *api.VirtualNetwork, path *field.Path) field.ErrorList {
	var errs field.ErrorList

	if n.Default {
		errs = append(errs, field.Forbidden(path.Child("default"),
			"the network has no route to the API server of the shoot; remove default, so that the pod network is the default"))
	}

	return append(errs, validateVirtualRange(network.CIDR, path.Child(string(n.Type()), "cidr"))...)
}

// ValidateVirtualNetworkUpdate returns an error for each virtual network with another type or range than before.
func ValidateVirtualNetworkUpdate(networks, old []api.TenantNetwork, path *field.Path) field.ErrorList {
	var errs field.ErrorList

	for i := range networks {
		n := &networks[i]

		j := slices.IndexFunc(old, func(o api.TenantNetwork) bool { return o.Name == n.Name })
		if j >= 0 && (n.Type() != old[j].Type() || rangeOf(n) != rangeOf(&old[j])) {
			errs = append(errs, field.Forbidden(path.Index(i), "the type and the range of a network cannot be changed; add a network with another name, and remove this one"))
		}
	}

	return errs
}

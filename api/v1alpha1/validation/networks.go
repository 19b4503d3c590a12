package validation

import (
	"fmt"
	"net/netip"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
)

func networks(list []v1alpha1.Network, path *field.Path) field.ErrorList {
	var (
		errs    field.ErrorList
		primary string
	)

	for i, n := range list {
		entry := path.Index(i)
		errs = append(errs, networkSource(n, entry)...)
		errs = append(errs, binding(n, entry)...)
		errs = append(errs, mac(n, entry.Child("mac"))...)

		if n.Default || n.Pod != nil {
			if primary != "" {
				errs = append(errs, field.Forbidden(entry, primary+" is the machine's primary network already: only one may have default or pod"))
			}

			primary = entry.String()
		}
	}

	return errs
}

// networkSource checks the name because KubeVirt does not: with a wrong one, the machine's pod is never created.
func networkSource(n v1alpha1.Network, path *field.Path) field.ErrorList {
	name := path.Child("name")

	switch {
	case n.Pod != nil && n.Name != "":
		return field.ErrorList{field.Forbidden(name, "set either pod or the name of a Multus network")}
	case n.Pod != nil:
		return podNetwork(n.Pod, path.Child("pod"))
	case n.Name == "":
		return field.ErrorList{field.Required(name, `name a NetworkAttachmentDefinition, "name" or "namespace/name", or set pod`)}
	}

	namespace, definition, found := strings.Cut(n.Name, "/")
	if !found {
		namespace, definition = metav1.NamespaceDefault, n.Name
	}

	if len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1123Subdomain(definition)) > 0 {
		return field.ErrorList{field.Invalid(name, n.Name, `must be the "name" or "namespace/name" of a NetworkAttachmentDefinition`)}
	}

	return nil
}

// podNetwork checks the networks because KubeVirt does it only on the machine's node, where it fails for ever.
func podNetwork(p *v1alpha1.PodNetwork, path *field.Path) field.ErrorList {
	var errs field.ErrorList

	for _, network := range []struct {
		name, cidr, example string
		is6                 bool
	}{
		{"vmNetworkCIDR", p.VMNetworkCIDR, "10.0.2.0/24", false},
		{"vmIPv6NetworkCIDR", p.VMIPv6NetworkCIDR, "fd10:0:2::/120", true},
	} {
		if network.cidr == "" {
			continue
		}

		// The gateway and the guest need an address each.
		prefix, err := netip.ParsePrefix(network.cidr)
		if err != nil || prefix.Addr().Is6() != network.is6 || prefix.Addr().BitLen()-prefix.Bits() < 2 {
			errs = append(errs, field.Invalid(path.Child(network.name), network.cidr, "must be a network with at least four addresses, for example "+network.example))
		}
	}

	return errs
}

func binding(n v1alpha1.Network, path *field.Path) field.ErrorList {
	var given []string

	for _, b := range []struct {
		name string
		set  bool
	}{{"bridge", n.Bridge != nil}, {"masquerade", n.Masquerade != nil}, {"sriov", n.SRIOV != nil}, {"binding", n.Binding != nil}} {
		if b.set {
			given = append(given, b.name)
		}
	}

	switch {
	case len(given) > 1:
		return field.ErrorList{field.Forbidden(path.Child(given[1]), given[0]+" is set already: an interface has one binding")}
	case n.SRIOV != nil && n.Pod != nil:
		return field.ErrorList{field.Forbidden(path.Child("sriov"), "the pod network has no virtual functions; name a Multus network")}
	case n.Binding != nil && n.Binding.Name == "":
		return field.ErrorList{field.Required(path.Child("binding", "name"), "name a network binding plugin of the provider's KubeVirt resource")}
	}

	return nil
}

func mac(n v1alpha1.Network, path *field.Path) field.ErrorList {
	switch {
	case n.MAC == "":
		return nil
	case n.MAC != v1alpha1.MACStable:
		return field.ErrorList{field.NotSupported(path, n.MAC, []v1alpha1.MACPolicy{v1alpha1.MACStable})}
	case n.Default || n.Pod != nil:
		return field.ErrorList{field.Forbidden(path, fmt.Sprintf(
			"%s is for secondary networks: the primary one's address is the network's to choose, and another may be dropped", n.MAC))}
	}

	return nil
}

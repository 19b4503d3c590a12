// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"encoding/json"
	"slices"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
)

// ValidatePodNetwork returns the errors of a connection to the pod network, which may be nil.
func ValidatePodNetwork(pod *api.PodNetwork, path *field.Path) field.ErrorList {
	if pod == nil {
		return nil
	}

	var errs field.ErrorList
	if pod.Binding != "" {
		errs = validateName(pod.Binding, path.Child("binding"))
	}

	if pod.AllowBridgeLiveMigration && pod.Binding != "" && pod.Binding != api.BindingBridge {
		errs = append(errs, field.Forbidden(path.Child("allowBridgeLiveMigration"), "it has no effect with another binding than bridge; remove it"))
	}

	return errs
}

// validatePod returns the errors of the connection to the pod network of a Shoot's machines.
func validatePod(config *api.NetworksConfig, path *field.Path) field.ErrorList {
	i := defaultNetwork(config)
	if config.Pod == nil || i < 0 {
		return ValidatePodNetwork(config.Pod, path.Child("pod"))
	}

	return field.ErrorList{field.Forbidden(path.Child("pod"), "the machines have no interface in the pod network, since "+
		path.Child("tenantNetworks").Index(i).String()+" is their default network; remove pod, or default")}
}

// defaultNetwork returns the index of the default tenant network; -1 if the pod network is the default.
func defaultNetwork(config *api.NetworksConfig) int {
	return slices.IndexFunc(config.TenantNetworks, func(n api.TenantNetwork) bool { return n.Default })
}

// UsesPodNetwork reports whether machines are in the pod network.
func UsesPodNetwork(config *api.NetworksConfig) bool { return defaultNetwork(config) < 0 }

// PodNetworkOf returns the connection to the pod network of a Shoot's machines. byDefault is that of Shoots without
// one, which may be nil. It returns nil for a bridge without live migration, and for machines that are not in the pod
// network.
func PodNetworkOf(config *api.NetworksConfig, byDefault *api.PodNetwork) *api.PodNetwork {
	pod := config.Pod
	if pod == nil {
		pod = byDefault
	}

	if pod == nil || defaultNetwork(config) >= 0 {
		return nil
	}

	actual := *pod
	if actual.Binding == api.BindingBridge {
		actual.Binding = ""
	}

	if actual == (api.PodNetwork{}) {
		return nil
	}

	return &actual
}

// validateEncapsulation refuses the binding passt for Shoots whose pods send packets of a protocol that passt does not
// forward: Calico of Gardener encapsulates them in IP-in-IP unless its configuration says otherwise.
func validateEncapsulation(networking *gardencorev1beta1.Networking, pod *api.PodNetwork, networks *field.Path) field.ErrorList {
	if ptr.Deref(pod, api.PodNetwork{}).Binding != api.BindingPasst || ptr.Deref(networking.Type, "") != "calico" {
		return nil
	}

	// The NetworkConfig of gardener-extension-networking-calico.
	var config struct {
		Backend string
		IPv4    struct{ Pool, Mode string }
		VXLAN   struct{ Enabled bool }
		Overlay *struct{ Enabled bool }
	}

	if raw := networking.ProviderConfig; raw != nil {
		_ = json.Unmarshal(raw.Raw, &config) // That extension validates it.
	}

	if config.VXLAN.Enabled || config.Backend == "vxlan" || config.IPv4.Pool == "vxlan" || config.IPv4.Mode == "Never" || config.Overlay != nil && !config.Overlay.Enabled {
		return nil
	}

	return field.ErrorList{field.Invalid(networks.Child("pod", "binding"), api.BindingPasst,
		"does not forward IP-in-IP packets between the pods of Calico; set vxlan.enabled in spec.networking.providerConfig, or use another binding")}
}

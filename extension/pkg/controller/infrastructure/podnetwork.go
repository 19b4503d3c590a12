// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package infrastructure

import (
	"context"
	"fmt"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/validation"
)

// adoptDefaults adopts the default connection to the pod network for a new shoot. Existing shoots keep theirs, since
// another binding would replace all machines.
func (f *flow) adoptDefaults(isNew bool) {
	if isNew {
		f.state.DefaultPodNetwork = f.profile.PodNetwork
	}
}

// podNetwork returns the connection of the machines to the pod network; nil for a bridge without live migration.
func (f *flow) podNetwork() *api.PodNetwork {
	return validation.PodNetworkOf(&f.config.Networks, f.state.DefaultPodNetwork)
}

// checkBinding checks that KubeVirt has the binding of the pod network. Reading KubeVirt's configuration is an
// optional permission.
func (f *flow) checkBinding(ctx context.Context, r *running) []fault {
	desired := ptr.Deref(f.podNetwork(), api.PodNetwork{}).Binding
	inUse := ptr.Deref(f.status.PodNetwork, api.PodNetwork{}).Binding

	if desired == "" || desired == api.BindingMasquerade || r.hasMachines() && desired == inUse {
		return nil
	}

	list := &kubevirtv1.KubeVirtList{}
	if f.note(f.provider.List(ctx, list, client.Limit(1))) != nil || len(list.Items) == 0 {
		return nil
	}

	missing := missingBinding(&list.Items[0], desired)
	if missing == "" {
		return nil
	}

	return []fault{{gardencorev1beta1.ErrorRetryableConfigurationProblem, configPath().Child("networks", "pod", "binding"), fmt.Sprintf(
		"%s; or use another binding, such as bridge", missing)}}
}

// missingBinding returns why an installation of KubeVirt does not have a binding, with a remedy; empty if it has.
func missingBinding(k *kubevirtv1.KubeVirt, binding string) string {
	if binding == api.BindingPasst {
		if hasGate(k, "PasstBinding") {
			return ""
		}

		return "KubeVirt of the provider cluster does not have the binding passt: it needs v1.9, or v1.8 with the feature gate PasstBinding; upgrade it, or enable the gate"
	}

	plugins := ptr.Deref(k.Spec.Configuration.NetworkConfiguration, kubevirtv1.NetworkConfiguration{}).Binding
	if _, registered := plugins[binding]; registered {
		return ""
	}

	return fmt.Sprintf("KubeVirt of the provider cluster has no network binding plugin %s; register it in spec.configuration.network.binding of the KubeVirt resource", binding)
}

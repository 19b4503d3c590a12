// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package infrastructure

import (
	"context"
	"fmt"

	"github.com/Masterminds/semver/v3"
	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/validation"
)

// adoptDefaults adopts the default connection to the pod network for a new shoot. Existing shoots keep theirs, since
// another binding would replace all machines: a default that cannot be read is an error.
func (f *flow) adoptDefaults(isNew bool) error {
	if !isNew {
		return nil
	}

	if f.profileErr != nil {
		return v1beta1helper.NewErrorWithCodes(fmt.Errorf("read the default of networks.pod: %w", f.profileErr), gardencorev1beta1.ErrorRetryableConfigurationProblem)
	}

	f.state.DefaultPodNetwork = f.profile.PodNetwork

	return nil
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

	if desired == api.BindingMasquerade || !validation.UsesPodNetwork(&f.config.Networks) || r.hasMachines() && desired == inUse {
		return nil
	}

	k := f.kubeVirt(ctx)
	if k == nil {
		return nil
	}

	missing := missingBinding(k, desired)
	if missing == "" {
		return nil
	}

	return []fault{{gardencorev1beta1.ErrorRetryableConfigurationProblem, configPath().Child("networks", "pod", "binding"), missing}}
}

// kubeVirt returns the installation of KubeVirt; nil if it cannot be read. It reads it once.
func (f *flow) kubeVirt(ctx context.Context) *kubevirtv1.KubeVirt {
	if f.installations == nil {
		f.installations = &kubevirtv1.KubeVirtList{}
		if f.note(f.provider.List(ctx, f.installations, client.Limit(1))) != nil {
			f.installations.Items = nil
		}
	}

	if len(f.installations.Items) == 0 {
		return nil
	}

	return &f.installations.Items[0]
}

// missingBinding returns why an installation of KubeVirt does not have a binding, with a remedy; empty if it has.
func missingBinding(k *kubevirtv1.KubeVirt, binding string) string {
	const other = "; or use another binding, such as masquerade"

	network := ptr.Deref(k.Spec.Configuration.NetworkConfiguration, kubevirtv1.NetworkConfiguration{})

	switch {
	case binding == "" && ptr.Deref(network.PermitBridgeInterfaceOnPodNetwork, true), binding == api.BindingPasst && hasPasst(k):
		return ""
	case binding == "":
		return "KubeVirt of the provider cluster does not permit bridges to the pod network; set permitBridgeInterfaceOnPodNetwork of its KubeVirt resource" + other
	case binding == api.BindingPasst:
		return "KubeVirt of the provider cluster does not have the binding passt: it needs v1.9, or v1.8 with the feature gate PasstBinding; upgrade it, or enable the gate" + other
	}

	if _, registered := network.Binding[binding]; registered {
		return ""
	}

	return fmt.Sprintf("KubeVirt of the provider cluster has no network binding plugin %s; register it in spec.configuration.network.binding of the KubeVirt resource%s", binding, other)
}

// hasPasst reports whether KubeVirt has the binding passt. Versions before 1.8 ignore the name of its feature gate.
func hasPasst(k *kubevirtv1.KubeVirt) bool {
	version, err := semver.NewVersion(k.Status.ObservedKubeVirtVersion)

	return (err != nil || !version.LessThan(semver.New(1, 8, 0, "", ""))) && hasGate(k, "PasstBinding")
}

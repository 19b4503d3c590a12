// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package infrastructure

import (
	"context"
	"fmt"
	"slices"

	extensionscontroller "github.com/gardener/gardener/extensions/pkg/controller"
	"github.com/gardener/gardener/extensions/pkg/webhook/cloudprovider"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"

	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/ownership"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/providercluster"
)

// flow is an operation on the infrastructure of one shoot, with the decoded configuration and status.
type flow struct {
	provider *providercluster.Cluster
	config   api.InfrastructureConfig
	profile  api.CloudProfileConfig
	// status and state are those of the last reconciliation.
	status api.InfrastructureStatus
	state  api.InfrastructureState
	// unreadable is set if status or state has fields that this version does not know.
	unreadable bool
	// owner is the owner of all objects.
	owner ownership.Owner

	// known are the networks of the last reconciliation, by name, and found are those of this one.
	known map[string]api.NetworkState
	found []api.NetworkState

	// remaining are the types of tenant networks of which deleteNetworks found objects, possibly several times.
	remaining []api.TenantNetworkType
	// profileErr is the error of decoding the configuration of the CloudProfile.
	profileErr error

	// record records in the seed that objects may exist in the provider cluster, before the first of them
	// is written; nil for a shoot that is only read.
	record func(context.Context) error

	// busy is the ErrBusy of an optional request, which was given up while other shoots waited; nil if there is none.
	busy error

	// installations are those of KubeVirt; nil before they are read.
	installations *kubevirtv1.KubeVirtList

	// rules are the permissions of the account; nil before they are read.
	rules []rbacv1.PolicyRule

	// namespace is the namespace of the kubeconfig: the namespace of the machines.
	namespace string
	// hasLoadBalancers is set if Services of the shoot become objects of the provider cluster.
	hasLoadBalancers bool
}

// configPath is the path of the InfrastructureConfig in the Shoot.
func configPath() *field.Path { return field.NewPath("spec", "provider", "infrastructureConfig") }

// newFlow connects to the provider cluster of a shoot.
func (a *actuator) newFlow(ctx context.Context, infra *extensionsv1alpha1.Infrastructure, cluster *extensionscontroller.Cluster) (*flow, error) {
	provider, err := a.newProviderCluster(ctx, a.seed, infra.Spec.SecretRef)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", credentialsPath(), err)
	}

	f := newFlow(provider, infra, cluster)
	f.record = func(ctx context.Context) error { return a.recordWrite(ctx, infra, f.namespace, f.recordedState()) }

	if err := f.checkNamespace(infra); err != nil {
		provider.Close()

		return nil, err
	}

	return f, nil
}

// newFlow decodes the configuration and the status of a shoot. It ignores errors, so that they do not prevent
// deletion: the configValidator reports those of the InfrastructureConfig, and the controllers of ControlPlanes
// and Workers the others.
func newFlow(provider *providercluster.Cluster, infra *extensionsv1alpha1.Infrastructure, cluster *extensionscontroller.Cluster) *flow {
	f := &flow{provider: provider, owner: ownership.Of(cluster.Shoot), namespace: provider.Namespace}
	_ = api.Decode(infra.Spec.ProviderConfig, configPath(), &f.config)

	// A newer version may have written the status.
	unreadable := append(api.Decode(infra.Status.ProviderStatus, nil, &f.status), api.Decode(infra.Status.State, nil, &f.state)...)
	f.unreadable = len(unreadable) > 0
	f.known = knownNetworks(&f.status, &f.state)

	controlPlane := &api.ControlPlaneConfig{}
	_ = api.Decode(cluster.Shoot.Spec.Provider.ControlPlaneConfig, nil, controlPlane)
	f.hasLoadBalancers = controlPlane.LoadBalancer == nil || !controlPlane.LoadBalancer.Disabled

	if cluster.CloudProfile != nil {
		f.decodeProfile(cluster.CloudProfile.Spec.ProviderConfig)
	}

	return f
}

// decodeProfile decodes the configuration of the CloudProfile. After an error, it offers no networks, since their lists
// may be the error.
func (f *flow) decodeProfile(config *runtime.RawExtension) {
	errs := api.Decode(config, field.NewPath("CloudProfile", "spec", "providerConfig"), &f.profile)
	if len(errs) == 0 {
		return
	}

	f.profileErr = errs.ToAggregate()

	if f.profile.SharedNetworks == nil {
		f.profile.SharedNetworks = []api.OfferedNetwork{}
	}

	if f.profile.TenantNetworks == nil {
		f.profile.TenantNetworks = []api.TenantNetworkType{}
	}
}

// createsNamespace reports whether the shoot has its own namespace, which the webhook of package
// cloudprovider writes to the kubeconfig.
func (f *flow) createsNamespace() bool {
	return f.config.Namespace != nil && f.config.Namespace.Create
}

// hasVolumes reports whether volumes of pods become objects of the provider cluster.
func (f *flow) hasVolumes() bool {
	return slices.ContainsFunc(f.profile.VolumeClasses, func(c api.VolumeClass) bool { return c.ExposeAs != "" })
}

// unchangedError is the error of a kubeconfig that the webhook did not change. Nothing is written with it.
type unchangedError struct{ error }

// checkNamespace returns an error if the kubeconfig does not point to the shoot's namespace.
func (f *flow) checkNamespace(infra *extensionsv1alpha1.Infrastructure) error {
	if f.createsNamespace() && f.namespace != f.owner.TechnicalID {
		return &unchangedError{fmt.Errorf("the namespace of the kubeconfig in the Secret %s is %s instead of %s: the extension's webhook %s did not change it; check that the webhook is registered, and reconcile the Shoot",
			infra.Spec.SecretRef.Name, f.namespace, f.owner.TechnicalID, cloudprovider.WebhookName)}
	}

	if f.status.Namespace == "" || f.status.Namespace == f.namespace {
		return nil
	}

	return errorOf([]fault{{gardencorev1beta1.ErrorConfigurationProblem, credentialsPath(), fmt.Sprintf(
		"the machines of the shoot are in namespace %s of the provider cluster, but the credentials and infrastructureConfig.namespace point to namespace %s; "+
			"a shoot cannot move to another namespace: restore the previous setting", f.status.Namespace, f.namespace)}})
}

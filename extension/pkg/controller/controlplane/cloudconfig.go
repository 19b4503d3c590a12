// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"slices"

	extensionscontroller "github.com/gardener/gardener/extensions/pkg/controller"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"sigs.k8s.io/yaml"

	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/validation"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/cloudprovider"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/identity/mount"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/ownership"
)

// proxyMountPath is the folder of the kubeconfig for the loopback proxy in the CSI driver's container.
const proxyMountPath = "/etc/kubernetes/provider"

// cloudConfig returns the configuration of cloud-controller-manager, in YAML.
func cloudConfig(
	config *api.ControlPlaneConfig, profile *api.CloudProfileConfig, cp *extensionsv1alpha1.ControlPlane, cluster *extensionscontroller.Cluster,
) (string, error) {
	namespace, err := providerNamespace(cp)
	if err != nil {
		return "", err
	}

	cloud := cloudprovider.Config{
		Kubeconfig:  mount.Path + "/" + mount.KeyKubeconfig,
		Namespace:   namespace,
		InfraLabels: ownership.Of(cluster.Shoot).Labels(),
		LoadBalancer: cloudprovider.LoadBalancerConfig{
			Enabled:            config.LoadBalancer == nil || !config.LoadBalancer.Disabled,
			AllowedAnnotations: validation.AllowedAnnotations(config.LoadBalancer, profile.LoadBalancer),
		},
		InstancesV2: cloudprovider.InstancesConfig{Enabled: true, ZoneAndRegionEnabled: true},
	}
	if profile.LoadBalancer != nil {
		cloud.LoadBalancer.Class = profile.LoadBalancer.Class
	}

	raw, err := yaml.Marshal(cloud)

	return string(raw), err
}

// knownGates are the feature gates with an effect on cloud-controller-manager (k8s.io/controller-manager/pkg/features
// and k8s.io/component-base/logs, v0.36.3).
var knownGates = []string{"AllAlpha", "AllBeta", "CloudControllerManagerWebhook", "ContextualLogging", "LoggingAlphaOptions", "LoggingBetaOptions"}

// featureGates returns the feature gates that cloud-controller-manager knows. It does not start with
// others, such as CustomResourceValidation in the 2020 user guide, which Kubernetes removed.
func featureGates(config *api.ControlPlaneConfig) map[string]bool {
	gates := map[string]bool{}

	if config.CloudControllerManager != nil {
		for gate, enabled := range config.CloudControllerManager.FeatureGates {
			if slices.Contains(knownGates, gate) {
				gates[gate] = enabled
			}
		}
	}

	return gates
}

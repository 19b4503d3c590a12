// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"slices"

	extensionscontroller "github.com/gardener/gardener/extensions/pkg/controller"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"sigs.k8s.io/yaml"

	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/ownership"
)

// cloudConfiguration is the configuration of KubeVirt's cloud-controller-manager v0.6.0
// (pkg/provider/cloud.go), which ignores unknown fields.
type cloudConfiguration struct {
	Kubeconfig   string            `json:"kubeconfig"`
	Namespace    string            `json:"namespace"`
	InfraLabels  map[string]string `json:"infraLabels"`
	LoadBalancer struct {
		Enabled bool `json:"enabled"`
		// EnableEPSController is never set: the controller panics when all endpoints of a Service move
		// to other Nodes (pkg/controller/kubevirteps/kubevirteps_controller.go:597).
		EnableEPSController bool `json:"enableEPSController"`
	} `json:"loadBalancer"`
	InstancesV2 struct {
		Enabled              bool `json:"enabled"`
		ZoneAndRegionEnabled bool `json:"zoneAndRegionEnabled"`
	} `json:"instancesV2"`
}

// proxyMountPath is the folder of the kubeconfig for the loopback proxy in the programs' containers.
const proxyMountPath = "/etc/kubernetes/provider"

// cloudConfig returns the configuration of cloud-controller-manager, in YAML.
func cloudConfig(config *api.ControlPlaneConfig, cp *extensionsv1alpha1.ControlPlane, cluster *extensionscontroller.Cluster) (string, error) {
	namespace, err := providerNamespace(cp)
	if err != nil {
		return "", err
	}

	cloud := cloudConfiguration{
		Kubeconfig:  proxyMountPath + "/kubeconfig",
		Namespace:   namespace,
		InfraLabels: ownership.Of(cluster.Shoot).Labels(),
	}
	cloud.LoadBalancer.Enabled = config.LoadBalancer == nil || !config.LoadBalancer.Disabled
	cloud.InstancesV2.Enabled = true
	// To set these labels, cloud-controller-manager would need a cluster-wide permission to read the
	// Nodes of the provider cluster. The MachineDeployments set them: a machine never leaves its zone.
	cloud.InstancesV2.ZoneAndRegionEnabled = false

	raw, err := yaml.Marshal(cloud)

	return string(raw), err
}

// knownGates are the feature gates with an effect on cloud-controller-manager v0.6.0
// (k8s.io/controller-manager/pkg/features and k8s.io/component-base/logs, v0.34.3).
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

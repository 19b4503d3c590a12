// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package cloudprovider

import (
	"fmt"

	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	providerspec "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/cloudprovider/annotations"
)

// Config is the file of --cloud-config: that of KubeVirt's own cloud-controller-manager v0.6.0
// (kubevirt/cloud-provider-kubevirt, pkg/provider/cloud.go), with further fields.
type Config struct {
	// Kubeconfig is the file with the kubeconfig of the provider cluster, which may refer to a token in the
	// file token beside it. Default: the account of the pod, in the cluster in which it runs.
	Kubeconfig string `json:"kubeconfig,omitempty"`
	// Namespace is the namespace of the machines. Default: that of the kubeconfig.
	Namespace string `json:"namespace,omitempty"`
	// InfraLabels are labels of all objects in the provider cluster. Objects with another value of one of
	// them belong to another cluster.
	InfraLabels map[string]string `json:"infraLabels,omitempty"`
	// LoadBalancer configures the Services of type LoadBalancer.
	LoadBalancer LoadBalancerConfig `json:"loadBalancer"`
	// InstancesV2 configures the Nodes.
	InstancesV2 InstancesConfig `json:"instancesV2"`
}

// LoadBalancerConfig configures the Services of type LoadBalancer.
type LoadBalancerConfig struct {
	// Enabled provides load balancers. Default: true.
	Enabled bool `json:"enabled"`
	// Selectorless leaves the endpoints of all load balancers to another program.
	Selectorless bool `json:"selectorless,omitempty"`
	// AllowedAnnotations are the annotations that Services pass on to their load balancers: keys, or a prefix
	// and "/*". Default: none.
	AllowedAnnotations []string `json:"allowedAnnotations,omitempty"`
	// Class is spec.loadBalancerClass of new load balancers in the provider cluster.
	Class string `json:"class,omitempty"`

	// CreationPollInterval, CreationPollTimeout and EnableEPSController are of no effect: no call waits for an
	// address, and the policy Local always has endpoints of its own.
	CreationPollInterval *int  `json:"creationPollInterval,omitempty"`
	CreationPollTimeout  *int  `json:"creationPollTimeout,omitempty"`
	EnableEPSController  *bool `json:"enableEPSController,omitempty"`
}

// InstancesConfig configures the Nodes.
type InstancesConfig struct {
	// Enabled initializes Nodes, and removes those without a machine. Default: true.
	Enabled bool `json:"enabled"`
	// ZoneAndRegionEnabled labels Nodes with the zone and the region that their machines require of provider
	// nodes. Default: true.
	ZoneAndRegionEnabled bool `json:"zoneAndRegionEnabled"`
}

// ReadConfig reads the file of --cloud-config. It returns all errors at once.
func ReadConfig(raw []byte) (*Config, error) {
	config := &Config{
		LoadBalancer: LoadBalancerConfig{Enabled: true},
		InstancesV2:  InstancesConfig{Enabled: true, ZoneAndRegionEnabled: true},
	}

	text, err := yaml.YAMLToJSONStrict(raw)
	if err != nil {
		return nil, fmt.Errorf("cloud-config must be YAML: %w", err)
	}

	root := field.NewPath("cloud-config")

	errs := providerspec.DecodeStrict(text, root, config)
	errs = append(errs, annotations.Validate(config.LoadBalancer.AllowedAnnotations, root.Child("loadBalancer", "allowedAnnotations"))...)

	errs = append(errs, metav1validation.ValidateLabels(config.InfraLabels, root.Child("infraLabels"))...)

	if class := config.LoadBalancer.Class; class != "" {
		for _, reason := range validation.IsQualifiedName(class) {
			errs = append(errs, field.Invalid(root.Child("loadBalancer", "class"), class, "must be a class of load balancers, such as metallb.io/metallb: "+reason))
		}
	}

	if config.Kubeconfig == "" && config.Namespace == "" {
		errs = append(errs, field.Required(root.Child("namespace"), "set the namespace of the machines, or a kubeconfig with a namespace"))
	}

	return config, errs.ToAggregate()
}

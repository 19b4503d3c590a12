// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	operatorvalidation "github.com/gardener/gardener/pkg/api/operator/v1alpha1/validation"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	operatorv1alpha1 "github.com/gardener/gardener/pkg/apis/operator/v1alpha1"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/validation"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/cloudprovider"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/kubevirt"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/workerpool"
)

// fragment matches a YAML block.
var fragment = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$")

// cloudConfigComment begins the YAML block with a cloud-config.
const cloudConfigComment = "# --cloud-config="

// TestFragments decodes the YAML blocks of all pages strictly, and validates them. Package imagevector
// tests the block with images.
func TestFragments(t *testing.T) {
	t.Parallel()

	found := 0

	for _, page := range append(pages(t), "../README.md") {
		for _, block := range fragment.FindAllStringSubmatch(content(t, page), -1) {
			if !strings.HasPrefix(block[1], "images:") {
				require.NoError(t, fault(block[1]), "%s: %s", page, block[1])

				found++
			}
		}
	}

	require.Positive(t, found)
}

// TestFragmentsCanFail requires an error for each kind of block.
func TestFragmentsCanFail(t *testing.T) {
	t.Parallel()

	const group = "apiVersion: kubevirt.provider.extensions.gardener.cloud/v1alpha1\n"

	for name, text := range map[string]string{
		"Unknown field":         group + "kind: InfrastructureConfig\nnetwork: {}",
		"Network without JSON":  group + "kind: InfrastructureConfig\nnetworks: {tenantNetworks: [{name: a, config: a}]}",
		"Feature gate":          group + "kind: ControlPlaneConfig\ncloudControllerManager: {featureGates: {A: 1}}",
		"Memory":                group + "kind: WorkerConfig\nmemory: {guest: 64Gi}",
		"Disk":                  group + "kind: WorkerConfig\ndevices: {disks: [{name: absent, disk: {}}]}",
		"Source":                group + "kind: CloudProfileConfig\nmachineImages: [{name: a, versions: [{version: 1.0.0, sourceURL: a}]}]",
		"Flavor":                group + "kind: CloudProfileConfig\nmachineImages: [{name: a, versions: [{version: 1.0.0, capabilityFlavors: [{sourceURL: a}]}]}]",
		"GPU":                   group + "kind: CloudProfileConfig\nmachineImages: []\nmachineTypes: [{name: a, gpus: [{name: a, deviceName: 'a b'}]}]",
		"Volume class":          group + "kind: CloudProfileConfig\nmachineImages: []\nvolumeClasses: [{name: a, default: true}]",
		"Status":                group + "kind: WorkerStatus",
		"Registration":          "apiVersion: operator.gardener.cloud/v1alpha1\nkind: Extension\nmetadata: {name: a}\nspec: {deployments: {}}",
		"Not an example":        "apiVersion: core.gardener.cloud/v1beta1\nkind: Shoot\nmetadata: {name: a}",
		"Without a known group": "a: b",
		"Annotation":            group + "kind: CloudProfileConfig\nmachineImages: []\nloadBalancer: {allowedAnnotations: ['*']}",
		"Cloud-config":          cloudConfigComment + "a\nnamespace: a\nloadBalancers: {}",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Error(t, fault(text))
		})
	}
}

// fault returns the errors of a block: of a configuration of the extension, or of its registration. All
// other manifests must be those in example, which the integration tests apply.
func fault(text string) error {
	if strings.HasPrefix(text, cloudConfigComment) {
		_, err := cloudprovider.ReadConfig([]byte(text))

		return err
	}

	raw, err := yaml.YAMLToJSONStrict([]byte(text))
	if err != nil {
		return err
	}

	meta := &metav1.TypeMeta{}
	if err := yaml.Unmarshal(raw, meta); err != nil {
		return err
	}

	switch meta.GroupVersionKind().Group {
	case api.SchemeGroupVersion.Group:
		return configErrors(meta.Kind, &runtime.RawExtension{Raw: raw}).ToAggregate()
	case operatorv1alpha1.SchemeGroupVersion.Group:
		extension := &operatorv1alpha1.Extension{}
		if err := yaml.UnmarshalStrict(raw, extension); err != nil {
			return err
		}

		return operatorvalidation.ValidateExtension(extension).ToAggregate()
	default:
		return requireExample(text)
	}
}

// requireExample returns an error unless a text is a file in example.
func requireExample(text string) error {
	files, err := filepath.Glob("../example/*.yaml")
	if err != nil {
		return err
	}

	for _, file := range files {
		if manifest, err := os.ReadFile(file); err != nil || string(manifest) == text {
			return err
		}
	}

	return errors.New("the manifest is none of those in extension/example")
}

// configErrors returns the errors of a configuration of the extension.
func configErrors(kind string, raw *runtime.RawExtension) field.ErrorList {
	path := field.NewPath("config")

	switch kind {
	case "InfrastructureConfig":
		config := &api.InfrastructureConfig{}

		return append(api.Decode(raw, path, config), validation.ValidateInfrastructureConfig(config, path)...)
	case "ControlPlaneConfig":
		return api.Decode(raw, path, &api.ControlPlaneConfig{})
	case "WorkerConfig":
		return workerErrors(raw)
	case "CloudProfileConfig":
		config := &api.CloudProfileConfig{}
		if errs := api.Decode(raw, path, config); len(errs) > 0 {
			return errs
		}

		errs := append(profileErrors(config), validation.ValidateVolumeClasses(config.VolumeClasses, path.Child("volumeClasses"))...)

		return append(errs, validation.ValidateOfferedLoadBalancer(config.LoadBalancer, path.Child("loadBalancer"))...)
	case "WorkloadIdentityConfig":
		config := &api.WorkloadIdentityConfig{}

		return append(api.Decode(raw, path, config), validation.ValidateWorkloadIdentityConfig(config, false, (&kubevirt.IdentityOptions{}).Allows, path)...)
	default:
		return field.ErrorList{field.NotSupported(path.Child("kind"), kind, []string{"InfrastructureConfig", "ControlPlaneConfig", "WorkerConfig", "CloudProfileConfig"})}
	}
}

// aPool is a pool that a fragment of a configuration can extend.
func aPool() extensionsv1alpha1.WorkerPool {
	return extensionsv1alpha1.WorkerPool{
		Name:         "pool",
		MachineType:  "type",
		MachineImage: extensionsv1alpha1.MachineImage{Name: "image", Version: "1.0.0"},
		Zones:        []string{"zone"},
		Volume:       &extensionsv1alpha1.Volume{Size: "20Gi"},
		DataVolumes:  []extensionsv1alpha1.DataVolume{{Name: "volume-1", Size: "10Gi"}},
	}
}

// poolErrors returns the errors for which there would be no MachineClass.
func poolErrors(pool extensionsv1alpha1.WorkerPool, machineType api.MachineType, image api.ImageSource) field.ErrorList {
	machineType.Name = pool.MachineType
	shoot := &workerpool.Settings{
		TechnicalID: "shoot--dev--name",
		Region:      "region",
		Profile: &gardencorev1beta1.CloudProfileSpec{MachineTypes: []gardencorev1beta1.MachineType{
			{Name: pool.MachineType, CPU: resource.MustParse("2"), Memory: resource.MustParse("4Gi")},
		}},
		ProfileConfig: &api.CloudProfileConfig{
			MachineTypes: []api.MachineType{machineType},
			MachineImages: []api.MachineImages{{
				Name: pool.MachineImage.Name,
				Versions: []api.MachineImageVersion{
					{Version: pool.MachineImage.Version, Architecture: pool.Architecture, ImageSource: image},
				},
			}},
		},
	}

	p, errs := shoot.Pool(pool, field.NewPath("pool"))
	if len(errs) == 0 {
		_, _, errs = p.ProviderSpec(0)
	}

	return errs
}

var anImage = api.ImageSource{SourceURL: "https://images.example.com/image.qcow2"}

// workerErrors returns the errors of a WorkerConfig.
func workerErrors(raw *runtime.RawExtension) field.ErrorList {
	pool := aPool()
	pool.ProviderConfig = raw

	return poolErrors(pool, api.MachineType{}, anImage)
}

// profileErrors returns the errors of pools with each of the machine types and images.
func profileErrors(config *api.CloudProfileConfig) field.ErrorList {
	var errs field.ErrorList

	for _, t := range config.MachineTypes {
		errs = append(errs, poolErrors(aPool(), t, anImage)...)
	}

	for _, image := range config.MachineImages {
		for _, version := range image.Versions {
			sources := []api.ImageSource{version.ImageSource}

			if len(version.CapabilityFlavors) > 0 {
				sources = nil
				for _, flavor := range version.CapabilityFlavors {
					sources = append(sources, flavor.ImageSource)
				}
			}

			for _, source := range sources {
				pool := aPool()
				pool.Architecture = ptr.To(ptr.Deref(version.Architecture, "amd64"))

				for _, err := range poolErrors(pool, api.MachineType{}, source) {
					err.Detail = fmt.Sprintf("%s %s: %s", image.Name, version.Version, err.Detail)
					errs = append(errs, err)
				}
			}
		}
	}

	return errs
}

// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package workerpool

import (
	"encoding/json"
	"fmt"

	jsonpatch "github.com/evanphx/json-patch/v5"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	providerspec "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1/validation"
	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
)

// role is the tag of machines. The images of a shoot do not have it.
const role = "node"

// driverRules are the rules of the sidecar that the control plane webhook adds. Users cannot make machines wait for the driver,
// which may not be able to act.
func (p *Pool) driverRules(template *providerspec.VirtualMachineTemplate) validation.Options {
	own := strategyOf(p.Config.VirtualMachineTemplate)

	return validation.Options{Template: validation.TemplateSafe, Evacuation: own == "" && strategyOf(template) == kubevirtv1.EvictionStrategyExternal}
}

// ProviderSpec returns the ProviderSpec of the pool's machines in the zone with an index, parsed and in
// JSON. It validates the ProviderSpec as the driver does. Errors name the fields of the Shoot.
func (p *Pool) ProviderSpec(zone int) (*providerspec.ProviderSpec, []byte, field.ErrorList) {
	template, errs := p.template()
	if len(errs) > 0 {
		return nil, nil, errs
	}

	raw, err := json.Marshal(p.providerSpec(zone, template))
	if err != nil {
		return nil, nil, field.ErrorList{field.InternalError(p.path, fmt.Errorf("write ProviderSpec: %w", err))}
	}

	spec, errs := validation.Decode(raw, p.driverRules(template))
	if len(errs) > 0 {
		return nil, nil, p.inShoot(p.explainStrategy(errs, spec, zone), zone)
	}

	return spec, raw, nil
}

func (p *Pool) providerSpec(zone int, template *providerspec.VirtualMachineTemplate) *providerspec.ProviderSpec {
	spec := &providerspec.ProviderSpec{
		APIVersion:                     providerspec.APIVersion,
		Kind:                           providerspec.Kind,
		Region:                         p.settings.Region,
		Zone:                           p.Zones[zone],
		Tags:                           p.settings.tags(),
		Resources:                      p.resources(),
		CPU:                            p.Config.CPU,
		Memory:                         p.Config.Memory,
		RootVolume:                     p.rootVolume(),
		AdditionalVolumes:              p.additionalVolumes(),
		DisablePreAllocatedDataVolumes: p.Config.DisablePreAllocatedDataVolumes,
		Devices:                        p.Config.Devices,
		Networks:                       p.settings.networks(),
		DNSPolicy:                      p.Config.DNSPolicy,
		DNSConfig:                      p.Config.DNSConfig,
		CloudInit:                      p.Image.Source.CloudInit,
		SSHKeys:                        sshKeys(p.settings.SSHPublicKey),
		VirtualMachineTemplate:         template,
	}

	if size := p.Image.Source.Size; size != nil && spec.UsesGoldenImage() && size.Cmp(p.Root.Size) < 0 {
		spec.GoldenImage = &providerspec.GoldenImage{Size: size}
	}

	return spec
}

// tags returns the tags of the machines.
func (s *Settings) tags() map[string]string {
	tags := map[string]string{providerspec.TagCluster: s.TechnicalID, providerspec.TagRole: role}
	if s.UID != "" {
		tags[providerspec.TagShootUID] = s.UID
	}

	return tags
}

// resources returns the requests and limits of the virtual machine's pod. An instance type defines
// them itself.
func (p *Pool) resources() kubevirtv1.ResourceRequirements {
	r := kubevirtv1.ResourceRequirements{OvercommitGuestOverhead: p.Config.OvercommitGuestOverhead, Requests: p.Requests()}
	if r.Requests == nil {
		return r
	}

	if limits := p.TypeConfig.Limits; limits != nil {
		r.Limits = corev1.ResourceList{}
		if limits.CPU != nil {
			r.Limits[corev1.ResourceCPU] = *limits.CPU
		}

		if limits.Memory != nil {
			r.Limits[corev1.ResourceMemory] = *limits.Memory
		}
	}

	return r
}

// Requests returns the CPU and the memory that a machine requests; nil if its instance type defines them, or if
// the CloudProfile does not have its machine type.
func (p *Pool) Requests() corev1.ResourceList {
	if p.Type == nil || p.TypeConfig.Instancetype != nil {
		return nil
	}

	return corev1.ResourceList{corev1.ResourceCPU: p.Type.CPU, corev1.ResourceMemory: p.MemoryRequest()}
}

// CPUs returns the CPUs of the guest: those of its topology, or of its machine type.
func (p *Pool) CPUs() resource.Quantity {
	c := p.Config.CPU
	if c == nil || c.Sockets == 0 && c.Cores == 0 && c.Threads == 0 {
		return p.Type.CPU
	}

	return *resource.NewQuantity(int64(max(c.Sockets, 1))*int64(max(c.Cores, 1))*int64(max(c.Threads, 1)), resource.DecimalSI)
}

// GPUs returns the GPUs of the guest: those that its machine type passes through, or those that the CloudProfile
// declares for an instance type.
func (p *Pool) GPUs() resource.Quantity {
	if count := int64(len(p.TypeConfig.GPUs)); count > 0 {
		return *resource.NewQuantity(count, resource.DecimalSI)
	}

	return p.Type.GPU
}

// MemoryRequest returns the memory that a machine requests: that of its machine type, unless its guest has
// less. KubeVirt refuses a guest with less memory than its pod requests.
func (p *Pool) MemoryRequest() resource.Quantity {
	if m := p.Config.Memory; m != nil && m.Guest != nil && m.Guest.Cmp(p.Type.Memory) < 0 {
		return *m.Guest
	}

	return p.Type.Memory
}

func (p *Pool) rootVolume() providerspec.RootVolume {
	image := p.Image.Source
	if image.ContainerDisk != nil {
		return providerspec.RootVolume{ContainerDisk: image.ContainerDisk}
	}

	root := dataVolume(p.Root)
	root.Source = image.Source
	root.SourceRef = image.SourceRef

	if image.SourceURL != "" {
		root.Source = &cdiv1beta1.DataVolumeSource{HTTP: &cdiv1beta1.DataVolumeSourceHTTP{URL: image.SourceURL}}
	}

	return providerspec.RootVolume{DataVolume: root}
}

// additionalVolumes returns the data volumes of a pool as blank block devices. Gardener finds the
// kubelet's data volume by its exact size, which a file system on the provider node would reduce.
func (p *Pool) additionalVolumes() []providerspec.AdditionalVolume {
	var volumes []providerspec.AdditionalVolume

	for _, v := range p.Data {
		blank := dataVolume(v)
		block := corev1.PersistentVolumeBlock
		blank.Source = &cdiv1beta1.DataVolumeSource{Blank: &cdiv1beta1.DataVolumeBlankImage{}}
		blank.Storage.VolumeMode = &block

		volumes = append(volumes, providerspec.AdditionalVolume{Name: v.Name, DataVolume: &blank})
	}

	return volumes
}

// dataVolume returns a DataVolume without a source. CDI's StorageProfile of the storage class has
// the access modes.
func dataVolume(v Volume) providerspec.DataVolume {
	return providerspec.DataVolume{DataVolumeSpec: cdiv1beta1.DataVolumeSpec{Storage: &cdiv1beta1.StorageSpec{
		StorageClassName: v.Class,
		Resources:        corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: v.Size}},
	}}}
}

// networks returns the networks of the machines. The pod network is the last one: secondary interfaces are named by
// their index.
func (s *Settings) networks() []providerspec.Network {
	var networks []providerspec.Network

	for _, n := range s.Networks {
		networks = append(networks, providerspec.Network{Name: n.Name, Default: n.Default, Binding: n.Binding, MAC: n.MAC})
	}

	if s.PodNetwork != nil {
		networks = append(networks, podNetwork(s.PodNetwork))
	}

	return networks
}

func podNetwork(pod *api.PodNetwork) providerspec.Network {
	network := providerspec.Network{Pod: &providerspec.PodNetwork{AllowBridgeLiveMigration: pod.AllowBridgeLiveMigration}}

	switch pod.Binding {
	case "", api.BindingBridge:
	case api.BindingMasquerade:
		network.Masquerade = &kubevirtv1.InterfaceMasquerade{}
	case api.BindingPasst:
		network.PasstBinding = &kubevirtv1.InterfacePasstBinding{}
	default:
		network.Binding = &kubevirtv1.PluginBinding{Name: pod.Binding}
	}

	return network
}

// sshKeys returns the shoot's public key. There is none if SSH access is disabled.
func sshKeys(key []byte) []string {
	if len(key) == 0 {
		return nil
	}

	return []string{string(key)}
}

// template returns the pool's template with the settings of the machine type. Users must not
// replace the hardware that the operator offers.
func (p *Pool) template() (*providerspec.VirtualMachineTemplate, field.ErrorList) {
	own, path := p.Config.VirtualMachineTemplate, p.path.Child("providerConfig", "virtualMachineTemplate", "spec")

	if own == nil {
		own = &providerspec.VirtualMachineTemplate{}
	} else if errs := validateTemplate(own, path); len(errs) > 0 {
		return nil, errs
	}

	settings := hardwareOf(&p.TypeConfig)
	if strategy := p.settings.evictionStrategy(); strategy != "" && strategyOf(own) == "" {
		settings = withStrategy(settings, strategy)
	}

	if len(settings) == 0 {
		return p.Config.VirtualMachineTemplate, nil
	}

	merged, err := merge(own, settings)
	if err != nil {
		return nil, field.ErrorList{field.InternalError(path, err)}
	}

	return merged, nil
}

// hardwareOf returns the settings of a machine type as a partial VirtualMachine.
func hardwareOf(t *api.MachineType) map[string]any {
	devices := map[string]any{}
	spec := map[string]any{}

	if len(t.GPUs) > 0 {
		devices["gpus"] = t.GPUs
	}

	if len(t.HostDevices) > 0 {
		devices["hostDevices"] = t.HostDevices
	}

	instance := map[string]any{}
	if len(devices) > 0 {
		instance["domain"] = map[string]any{"devices": devices}
	}

	if len(t.ResourceClaims) > 0 {
		instance["resourceClaims"] = t.ResourceClaims
	}

	if len(instance) > 0 {
		spec["template"] = map[string]any{"spec": instance}
	}

	if t.Instancetype != nil {
		spec["instancetype"] = t.Instancetype
	}

	if t.Preference != nil {
		spec["preference"] = t.Preference
	}

	if len(spec) == 0 {
		return nil
	}

	return map[string]any{"spec": spec}
}

// validateTemplate returns an error for each field of a template that only the operator may set, in the
// CloudProfile. cluster-autoscaler and quotas calculate with the machine type.
func validateTemplate(own *providerspec.VirtualMachineTemplate, path *field.Path) field.ErrorList {
	var errs field.ErrorList

	refuse := func(set bool, path *field.Path, reason string) {
		if set {
			errs = append(errs, field.Forbidden(path, reason))
		}
	}

	const operator = "only the operator can set it, for a machine type of the CloudProfile; use a machine type that has it"

	refuse(own.Spec.Instancetype != nil, path.Child("instancetype"), operator)
	refuse(own.Spec.Preference != nil, path.Child("preference"), operator)

	if own.Spec.Template != nil {
		template, path := own.Spec.Template.Spec, path.Child("template", "spec")
		refuse(len(template.ResourceClaims) > 0, path.Child("resourceClaims"), operator)

		domain, path := template.Domain, path.Child("domain")
		refuse(len(domain.Devices.GPUs) > 0, path.Child("devices", "gpus"), operator)
		refuse(len(domain.Devices.HostDevices) > 0, path.Child("devices", "hostDevices"), operator)
		refuse(domain.Memory != nil, path.Child("memory"), "set memory in the WorkerConfig instead")
		refuse(domain.Resources.Requests != nil || domain.Resources.Limits != nil, path.Child("resources"),
			"the machine type defines the resources; use another machine type")
	}

	return errs
}

// merge merges the hardware of a machine type into a template.
func merge(own *providerspec.VirtualMachineTemplate, hardware map[string]any) (*providerspec.VirtualMachineTemplate, error) {
	original, err := own.Given()
	if err != nil {
		return nil, err
	}

	patch, err := json.Marshal(hardware)
	if err != nil {
		return nil, err
	}

	raw, err := jsonpatch.MergePatch(original, patch)
	if err != nil {
		return nil, err
	}

	merged := &providerspec.VirtualMachineTemplate{}

	return merged, json.Unmarshal(raw, merged)
}

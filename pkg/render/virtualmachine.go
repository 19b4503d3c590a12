// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package render creates the objects of a machine from a ProviderSpec, a machine's name and user
// data: the Secrets and the VirtualMachine with its DataVolume templates. pkg/providercluster
// sends them to the provider cluster, mcm-kubevirt prints them. Its functions are pure: they must
// not use a context, clock, client, environment or log.
package render

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

const (
	// terminationGracePeriodSeconds is how long the guest may take to shut down.
	// machine-controller-manager has drained the node by then, so a minute is ample; KubeVirt's
	// default of 30 s is short for a guest that unmounts volumes.
	terminationGracePeriodSeconds = 60
)

// VirtualMachine returns the VirtualMachine of a machine. The virtualMachineTemplate overrides the
// driver's defaults and the ProviderSpec's fields, and the fields that the driver owns override the
// template. The spec must be valid. An error means that it is not.
func VirtualMachine(in *spi.CreateMachineInput, namespace string) (*kubevirtv1.VirtualMachine, error) {
	vm, err := base(in, namespace)
	if err != nil {
		return nil, err
	}

	vm, err = mergeTemplate(vm, in.Spec.VirtualMachineTemplate)
	if err != nil {
		return nil, err
	}

	requireTopology(&vm.Spec.Template.Spec, in.Spec.Region, in.Spec.Zone)

	return vm, nil
}

// base returns the VirtualMachine without the template.
func base(in *spi.CreateMachineInput, namespace string) (*kubevirtv1.VirtualMachine, error) {
	vm := &kubevirtv1.VirtualMachine{
		TypeMeta:   metav1.TypeMeta{APIVersion: kubevirtv1.GroupVersion.String(), Kind: kubevirtv1.VirtualMachineGroupVersionKind.Kind},
		ObjectMeta: metav1.ObjectMeta{Name: in.Name, Namespace: namespace, Labels: objectLabels(in)},
		Spec: kubevirtv1.VirtualMachineSpec{
			RunStrategy:         ptr.To(runStrategy(in.Spec)),
			DataVolumeTemplates: dataVolumeTemplates(in),
			Template: &kubevirtv1.VirtualMachineInstanceTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: templateLabels(in), Annotations: templateAnnotations(in.Spec)},
				Spec:       instanceSpec(in),
			},
		},
	}

	if !in.Spec.UsesGoldenImage() {
		return vm, nil
	}

	image, err := in.Image().DataVolume(namespace)
	if err != nil {
		return nil, err
	}

	cloneImage(vm, image.Name)

	return vm, nil
}

// runStrategy returns Always for a persistent root disk: after the loss of its host, a worker
// restarts with its disk and hence with its kubelet's certificate. On a container disk it would
// restart empty, and with an expired bootstrap token, so it runs once and is replaced.
func runStrategy(spec *v1alpha1.ProviderSpec) kubevirtv1.VirtualMachineRunStrategy {
	if spec.RootVolume.ContainerDisk != nil {
		return kubevirtv1.RunStrategyOnce
	}

	return kubevirtv1.RunStrategyAlways
}

func instanceSpec(in *spi.CreateMachineInput) kubevirtv1.VirtualMachineInstanceSpec {
	interfaces, networks := networking(in)

	return kubevirtv1.VirtualMachineInstanceSpec{
		Architecture:                  in.Architecture,
		EvictionStrategy:              ptr.To(evictionStrategy(in)),
		TerminationGracePeriodSeconds: ptr.To[int64](terminationGracePeriodSeconds),
		TopologySpreadConstraints:     spread(in),
		Domain: kubevirtv1.DomainSpec{
			Resources: *in.Spec.Resources.DeepCopy(),
			CPU:       in.Spec.CPU.DeepCopy(),
			Memory:    in.Spec.Memory.DeepCopy(),
			Devices:   devices(in, interfaces),
		},
		Networks:          networks,
		Volumes:           volumes(in),
		AccessCredentials: accessCredentials(in),
		DNSPolicy:         in.Spec.DNSPolicy,
		DNSConfig:         in.Spec.DNSConfig.DeepCopy(),
	}
}

// evictionStrategy returns the reaction to a drain of the machine's host. KubeVirt's own default is
// to kill the guest, or, on some platforms, to block the drain. External leaves it to the driver,
// and blocks the drain if the driver does nothing. LiveMigrate leaves it to KubeVirt, and the driver replaces the machine
// if its migration fails. It blocks the drain, without notice to the driver, if the machine can no longer migrate.
func evictionStrategy(in *spi.CreateMachineInput) kubevirtv1.EvictionStrategy {
	switch {
	case !in.Evacuation:
		return kubevirtv1.EvictionStrategyLiveMigrateIfPossible
	case in.Migratable:
		return kubevirtv1.EvictionStrategyLiveMigrate
	default:
		return kubevirtv1.EvictionStrategyExternal
	}
}

func devices(in *spi.CreateMachineInput, interfaces []kubevirtv1.Interface) kubevirtv1.Devices {
	wanted := ptr.Deref(in.Spec.Devices, v1alpha1.Devices{})
	rendered := kubevirtv1.Devices{Disks: disks(in.Spec), Interfaces: interfaces, Rng: wanted.Rng.DeepCopy(), LogSerialConsole: in.LogConsole}

	if wanted.BlockMultiQueue {
		rendered.BlockMultiQueue = ptr.To(true)
	}

	if wanted.NetworkInterfaceMultiQueue || wanted.NetworkInterfaceMultiqueue {
		rendered.NetworkInterfaceMultiQueue = ptr.To(true)
	}

	return rendered
}

// Package render makes the objects of a machine: from a ProviderSpec, a machine's name and user data to the Secret and the
// VirtualMachine with its DataVolume templates. pkg/spi/providercluster creates what it returns, mcm-kubevirt prints it. Its
// functions are pure: they must not see a context, clock, client, environment or log.
package render

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

const (
	// rootDisk is the name of the disk and volume that the machine boots from, kept from the predecessor.
	rootDisk = "root-disk"
	// cloudInitVolume is the name of the cloud-init disk and volume. KubeVirt appends to it, up to 63 characters.
	cloudInitVolume = "cloudinit"

	// terminationGracePeriodSeconds is how long the guest may take to shut down. machine-controller-manager has drained the
	// node by then, so a minute is ample; KubeVirt's default of 30 s is short for a guest that unmounts volumes.
	terminationGracePeriodSeconds = 60
)

// VirtualMachine returns the VirtualMachine of a machine.
func VirtualMachine(in *spi.CreateMachineInput, namespace string) *kubevirtv1.VirtualMachine {
	return &kubevirtv1.VirtualMachine{
		TypeMeta:   metav1.TypeMeta{APIVersion: kubevirtv1.GroupVersion.String(), Kind: kubevirtv1.VirtualMachineGroupVersionKind.Kind},
		ObjectMeta: metav1.ObjectMeta{Name: in.Name, Namespace: namespace, Labels: Labels(in)},
		Spec: kubevirtv1.VirtualMachineSpec{
			// A worker comes back after the loss of its host, with its disk, hence with its kubelet's certificate.
			RunStrategy:         ptr.To(kubevirtv1.RunStrategyAlways),
			DataVolumeTemplates: []kubevirtv1.DataVolumeTemplateSpec{rootVolume(in)},
			Template: &kubevirtv1.VirtualMachineInstanceTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: templateLabels(in)},
				Spec:       instanceSpec(in),
			},
		},
	}
}

func instanceSpec(in *spi.CreateMachineInput) kubevirtv1.VirtualMachineInstanceSpec {
	interfaces, networks := networking(in.Spec.Networks)

	return kubevirtv1.VirtualMachineInstanceSpec{
		Architecture: in.Architecture,
		Affinity:     topologyAffinity(in.Spec.Region, in.Spec.Zone),
		// KubeVirt's own default is to kill the guest on a drain of its host, or, on some platforms, to block that drain.
		EvictionStrategy:              ptr.To(kubevirtv1.EvictionStrategyLiveMigrateIfPossible),
		TerminationGracePeriodSeconds: ptr.To[int64](terminationGracePeriodSeconds),
		TopologySpreadConstraints:     spread(in),
		Domain: kubevirtv1.DomainSpec{
			Resources: *in.Spec.Resources.DeepCopy(),
			CPU:       in.Spec.CPU.DeepCopy(),
			Memory:    in.Spec.Memory.DeepCopy(),
			Devices: kubevirtv1.Devices{
				Disks:      []kubevirtv1.Disk{virtioDisk(rootDisk), virtioDisk(cloudInitVolume)},
				Interfaces: interfaces,
			},
		},
		Networks: networks,
		Volumes: []kubevirtv1.Volume{
			{Name: rootDisk, VolumeSource: kubevirtv1.VolumeSource{
				DataVolume: &kubevirtv1.DataVolumeSource{Name: RootVolumeName(in.Name, in.UID)},
			}},
			{Name: cloudInitVolume, VolumeSource: kubevirtv1.VolumeSource{CloudInitNoCloud: cloudInit(in)}},
		},
	}
}

func rootVolume(in *spi.CreateMachineInput) kubevirtv1.DataVolumeTemplateSpec {
	return kubevirtv1.DataVolumeTemplateSpec{
		TypeMeta:   metav1.TypeMeta{APIVersion: cdiv1beta1.SchemeGroupVersion.String(), Kind: "DataVolume"},
		ObjectMeta: metav1.ObjectMeta{Name: RootVolumeName(in.Name, in.UID), Labels: Labels(in)},
		Spec:       *in.Spec.RootVolume.DeepCopy(),
	}
}

func virtioDisk(name string) kubevirtv1.Disk {
	return kubevirtv1.Disk{
		Name:       name,
		DiskDevice: kubevirtv1.DiskDevice{Disk: &kubevirtv1.DiskTarget{Bus: kubevirtv1.DiskBusVirtio}},
	}
}

func cloudInit(in *spi.CreateMachineInput) *kubevirtv1.CloudInitNoCloudSource {
	secret := &corev1.LocalObjectReference{Name: SecretName(in.Name)}

	source := &kubevirtv1.CloudInitNoCloudSource{UserDataSecretRef: secret}
	if len(in.Spec.Networks) > 0 {
		source.NetworkDataSecretRef = secret.DeepCopy()
	}

	return source
}

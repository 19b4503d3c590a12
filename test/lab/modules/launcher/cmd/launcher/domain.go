// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/xml"
	"fmt"
	"regexp"

	corev1 "k8s.io/api/core/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"kubevirt.io/kubevirt/pkg/virt-launcher/virtwrap/api"
	"kubevirt.io/kubevirt/pkg/virt-launcher/virtwrap/converter"
	"kubevirt.io/kubevirt/pkg/virt-launcher/virtwrap/converter/arch"
)

const architecture = "amd64"

// convert returns the domain of an instance, as virt-launcher's.
func convert(instance *kubevirtv1.VirtualMachineInstance) (*api.Domain, error) {
	c := &converter.ConverterContext{
		Architecture:                    arch.NewConverter(architecture),
		VirtualMachine:                  instance,
		AllowEmulation:                  true,
		ExpandDisksEnabled:              true,
		MemBalloonStatsPeriod:           10,
		IsBlockPVC:                      map[string]bool{},
		IsBlockDV:                       map[string]bool{},
		DomainAttachmentByInterfaceName: map[string]string{},
	}
	for _, status := range instance.Status.VolumeStatus {
		if info := status.PersistentVolumeClaimInfo; info != nil {
			isBlock := info.VolumeMode != nil && *info.VolumeMode == corev1.PersistentVolumeBlock
			c.IsBlockPVC[status.Name] = isBlock
			c.IsBlockDV[status.Name] = isBlock
		}
	}
	for _, device := range instance.Spec.Domain.Devices.Interfaces {
		c.DomainAttachmentByInterfaceName[device.Name] = string(kubevirtv1.Tap)
	}
	domain := &api.Domain{}
	if err := converter.Convert_v1_VirtualMachineInstance_To_api_Domain(instance, domain, c); err != nil {
		return nil, err
	}
	api.NewDefaulter(architecture).SetObjectDefaults_Domain(domain)
	return domain, nil
}

// adapt replaces what only a launcher pod has: devices of KVM, taps that virt-handler has made, and fixed
// paths.
func adapt(domain *api.Domain, instance *kubevirtv1.VirtualMachineInstance, start launch, iso string) error {
	spec := &domain.Spec
	spec.Type = "qemu"   // KubeVirt chooses KVM if its device exists, even if it does not work
	spec.MaxMemory = nil // for hotplug; libvirt 9 refuses its number of slots
	if err := placeDisks(spec.Devices.Disks, start.Disks, iso); err != nil {
		return err
	}
	connectInterfaces(spec.Devices.Interfaces, instance)
	for i := range spec.Devices.Serials {
		spec.Devices.Serials[i].Type = "file"
		spec.Devices.Serials[i].Source = &api.SerialSource{Path: start.Console}
		spec.Devices.Serials[i].Log = nil
	}
	spec.Devices.Consoles = nil
	spec.Devices.Graphics = nil
	spec.Devices.Video = nil
	// libvirt itself would be the only client of the guest agent.
	spec.Devices.Channels = nil
	spec.XmlNS = "http://libvirt.org/schemas/domain/qemu/1.0"
	for _, value := range []string{
		"-qmp", "unix:" + start.Monitor + ",server=on,wait=off",
		"-chardev", "socket,id=agent,path=" + start.Agent + ",server=on,wait=off",
		// In JSON, since QEMU creates other devices first, before KubeVirt's controller.
		"-device", `{"driver":"virtserialport","bus":"virtio-serial0.0","chardev":"agent","name":"org.qemu.guest_agent.0"}`,
	} {
		if spec.QEMUCmd == nil {
			spec.QEMUCmd = &api.Commandline{}
		}
		spec.QEMUCmd.QEMUArg = append(spec.QEMUCmd.QEMUArg, api.Arg{Value: value})
	}
	return nil
}

// connectInterfaces replaces taps with networks of QEMU itself. The addresses are those that virt-launcher
// would take from the taps.
func connectInterfaces(interfaces []api.Interface, instance *kubevirtv1.VirtualMachineInstance) {
	addresses := map[string]string{}
	for _, device := range instance.Spec.Domain.Devices.Interfaces {
		addresses[device.Name] = device.MacAddress
	}
	for i := range interfaces {
		device := &interfaces[i]
		device.Type = "user"
		device.Source = api.InterfaceSource{}
		device.Target = nil
		device.Driver = nil
		device.MTU = nil
		device.MAC = &api.MAC{MAC: addresses[device.Alias.GetName()]}
	}
}

// placeDisks replaces the sources of disks with files of the host.
func placeDisks(disks []api.Disk, files map[string]string, iso string) error {
	for i := range disks {
		disk := &disks[i]
		if disk.Alias == nil {
			return fmt.Errorf("disk %s has no name", disk.Target.Device)
		}
		file, known := files[disk.Alias.GetName()]
		if !known {
			if iso == "" || disk.Source.File == "" || disk.BackingStore != nil {
				return fmt.Errorf("volume %s is neither a claim nor a cloud-init disk", disk.Alias.GetName())
			}
			file = iso
		}
		disk.Type = "file"
		disk.Source = api.DiskSource{File: file}
		disk.FilesystemOverhead = nil
		disk.Capacity = nil
		disk.ExpandDisksEnabled = false
	}
	return nil
}

// networks are the addresses of the guest's networks after the first, which has libvirt's default.
const networks = `<ip family="ipv4" address="10.0.%d.0" prefix="24"></ip></interface>`

// encode returns libvirt's XML. Each interface has its own network, which KubeVirt's type cannot express.
func encode(domain *api.Domain) ([]byte, error) {
	data, err := xml.MarshalIndent(domain.Spec, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode the domain: %w", err)
	}
	const first = 2 // libvirt's default is 10.0.2.0/24
	number := first
	return regexp.MustCompile(`</interface>`).ReplaceAllFunc(data, func(end []byte) []byte {
		defer func() { number++ }()
		if number == first {
			return end
		}
		return fmt.Appendf(nil, networks, number)
	}), nil
}

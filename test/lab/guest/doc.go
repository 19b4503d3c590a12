// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package guest boots real guests for the lab: it builds a disk image of Debian with kubelet, and runs
// VirtualMachineInstances in QEMU, whose domain and cloud-init disk KubeVirt's own code writes.
//
// The environment builds the image and starts the Hypervisor if the lab has real guests, and the data
// plane calls the Hypervisor for VirtualMachineInstances that ask for one. The package knows neither the
// driver nor machine-controller-manager: a guest is defined by its VirtualMachineInstance, the Secrets
// and the volumes.
//
// QEMU emulates the guest's processor (TCG), so that no host needs KVM, and a boot takes minutes.
package guest

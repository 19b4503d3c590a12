// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package guest tests machines whose guests boot: they read their user data, join with a real kubelet,
// run pods and shut down. All its tests have the build tag guest.
//
// Real are the control planes, the driver, the cloud-init disk and the domain, which KubeVirt's own code
// writes, and everything in the guest. The provider nodes, the pod network and the storage's copies are the
// lab's, and QEMU emulates the processor.
package guest

// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package node runs real provider nodes on this machine: kubelet and containerd in namespaces of their own, as containers of runc.
//
// The environment starts them after the control plane of the provider cluster, and virt-handler and virt-launcher then run in
// their pods. The package knows neither KubeVirt nor the driver. Everything on the machine that belongs to a node, its
// processes, mounts, cgroups and interfaces, ends with the lab, even if the lab is killed. The lab has a network namespace of
// its own for that (Isolate).
package node

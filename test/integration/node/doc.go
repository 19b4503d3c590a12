// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package node proves the driver on real provider nodes: kubelet, virt-handler, virt-launcher and QEMU, which emulates the processor on machines
// without KVM. test/lab/README.md lists what differs from a cluster that is installed. Where a scene needs many machines that join, the test keeps
// their Nodes.
//
// The tests have the build tag node, since they need root and packages (`make test-node`). LAB_NODES=required makes it a failure if the machine
// lacks something.
package node

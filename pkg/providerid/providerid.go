// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package providerid formats the provider ID of a machine. It does nothing else.
//
// The format is frozen forever: machine-controller-manager deletes the virtual machine of every
// Machine whose provider ID it no longer recognizes. The predecessor of this driver used it, and
// KubeVirt's cloud-controller-manager (kubevirt/cloud-provider-kubevirt,
// pkg/provider/instances_v2.go) writes and requires it on Nodes.
package providerid

// Format returns the provider ID of the machine whose VirtualMachine has the given name.
func Format(name string) string {
	return "kubevirt://" + name
}

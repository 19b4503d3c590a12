// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package providerid formats and parses the provider ID of a machine. It does nothing else.
//
// The format is frozen forever: machine-controller-manager deletes the virtual machine of every
// Machine whose provider ID it no longer recognizes. The predecessor of this driver used it, and
// KubeVirt's cloud-controller-manager (kubevirt/cloud-provider-kubevirt,
// pkg/provider/instances_v2.go) writes and requires it on Nodes.
package providerid

import (
	"fmt"
	"regexp"
)

const prefix = "kubevirt://"

// pattern also allows dots, for the predecessor's machines; the
// cloud-controller-manager refuses dots on Nodes.
var pattern = regexp.MustCompile(`^kubevirt://([0-9A-Za-z._-]+)$`)

// Format returns the provider ID of the machine whose VirtualMachine has the given name.
func Format(name string) string {
	return prefix + name
}

// Parse returns the name of the VirtualMachine in a provider ID, or an error if the provider ID is
// not one of this driver's.
func Parse(id string) (string, error) {
	match := pattern.FindStringSubmatch(id)
	if match == nil {
		return "", fmt.Errorf("provider ID %q does not match %s", id, pattern)
	}

	return match[1], nil
}

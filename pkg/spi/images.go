// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package spi

import "k8s.io/apimachinery/pkg/types"

// Class is the MachineClass of a request: its golden image is needed until it is deleted.
type Class struct {
	// Name is the name of the MachineClass in the control cluster.
	Name types.NamespacedName
	// Deleted is set if the MachineClass has a deletionTimestamp.
	Deleted bool
	// ShootUID is the tag v1alpha1.TagShootUID; empty without it. Objects of another Shoot with the same
	// technical ID are neither listed nor deleted.
	ShootUID string
}

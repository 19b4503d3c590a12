// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// The package comment is a part of docs/api-reference.md. Every other package imports the package;
// it must not depend on any of them, nor on machine-controller-manager.

// Package v1alpha1 contains the types of the ProviderSpec, with which a MachineClass describes the
// virtual machines of a worker pool, and their strict decoding.
//
// +kubebuilder:object:generate=true
// +groupName=kubevirt.machine.gardener.cloud
package v1alpha1

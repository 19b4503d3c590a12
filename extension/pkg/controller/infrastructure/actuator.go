// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package infrastructure reconciles Infrastructures: it creates the networks, the namespace and the
// NetworkPolicies of a shoot in the provider cluster, and writes into the status what the Worker
// needs of them. Everything that it creates has the shoot's label, by which it is deleted. The
// package must not depend on machines: package workerpool knows their sizes.
package infrastructure

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/providercluster"
)

// actuator implements infrastructure.Actuator, with a file for each operation.
type actuator struct {
	seed               client.Client
	newProviderCluster providercluster.Factory
}

// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// gate is a feature gate of KubeVirt that changes the requirements on the provider cluster
// (pkg/virt-config/featuregate).
type gate struct {
	name string
	// knownSince is the minor version that introduced the gate. An older KubeVirt ignores its name.
	knownSince string
	// onSince is the minor version since which the gate is on by default; empty if it is not.
	onSince string
}

// Since KubeVirt 1.9, Beta gates are on by default.
var (
	gateConfigurableHypervisor = gate{name: "ConfigurableHypervisor", knownSince: "1.8"}
	gateCrossArchitecture      = gate{name: "CrossArchitectureVirtualization", knownSince: "1.9"}
	gateGPUsWithDRA            = gate{name: "GPUsWithDRA", knownSince: "1.6", onSince: "1.9"}
	gateHostDevicesWithDRA     = gate{name: "HostDevicesWithDRA", knownSince: "1.6", onSince: "1.9"}
	gateExternalNetResources   = gate{name: "ExternalNetResourceInjection", knownSince: "1.8", onSince: "1.9"}
	gatePasstBinding           = gate{name: "PasstBinding", knownSince: "1.8", onSince: "1.9"}
)

// on reports whether a KubeVirt has the gate on. As in KubeVirt, a gate that is both enabled and
// disabled is on. If the version is unknown, the gate counts as known, and as off by default.
func (g gate) on(kubeVirt *kubevirtv1.KubeVirt) bool {
	developer := ptr.Deref(kubeVirt.Spec.Configuration.DeveloperConfiguration, kubevirtv1.DeveloperConfiguration{})

	switch {
	case olderThan(kubeVirt, g.knownSince):
		return false
	case slices.Contains(developer.FeatureGates, g.name):
		return true
	case slices.Contains(developer.DisabledFeatureGates, g.name), g.onSince == "":
		return false
	}

	installed := versionOf(kubeVirt)

	return installed != nil && installed.AtLeast(version.MustParseGeneric(g.onSince))
}

// olderThan reports whether a KubeVirt is known to be older than a minor version.
func olderThan(kubeVirt *kubevirtv1.KubeVirt, minor string) bool {
	installed := versionOf(kubeVirt)

	return installed != nil && installed.LessThan(version.MustParseGeneric(minor))
}

// versionOf returns the version of a KubeVirt; nil if it is unknown.
func versionOf(kubeVirt *kubevirtv1.KubeVirt) *version.Version {
	installed, err := version.ParseGeneric(kubeVirt.Status.ObservedKubeVirtVersion)
	if err != nil {
		return nil
	}

	return installed
}

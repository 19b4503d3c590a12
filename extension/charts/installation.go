// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package charts

import "embed"

// Installation contains the charts with which Gardener installs the extension: ExtensionPath in seeds,
// AdmissionRuntimePath and AdmissionApplicationPath in a garden. A release publishes them; the extension
// does not read them.
//
//go:embed all:gardener-extension-provider-kubevirt all:gardener-extension-admission-kubevirt
var Installation embed.FS

// The folders of the charts in Installation.
const (
	// ExtensionPath is the chart of the extension, for gardenlet.
	ExtensionPath = "gardener-extension-provider-kubevirt"
	// AdmissionRuntimePath is the chart of the admission, for the runtime cluster of a garden.
	AdmissionRuntimePath = "gardener-extension-admission-kubevirt/charts/runtime"
	// AdmissionApplicationPath is the chart with the permissions of the admission in the virtual garden
	// cluster.
	AdmissionApplicationPath = "gardener-extension-admission-kubevirt/charts/application"
)

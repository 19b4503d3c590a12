// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package charts contains the Helm charts of what the extension deploys into a seed and into shoots,
// which the ControlPlane controller renders, and those of the extension itself, which Gardener renders.
// The package must not depend on their values.
package charts

import "embed"

// Internal contains the folder internal: one chart per ManagedResource of a ControlPlane.
//
//go:embed all:internal
var Internal embed.FS

// Path is the folder of the charts in Internal.
const Path = "internal"

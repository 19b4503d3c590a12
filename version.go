// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package release knows the version of this repository. The commands print it. It must not depend on anything else.
package release

import (
	_ "embed" // for VERSION
	"strings"
)

//go:embed VERSION
var version string

// Version returns the content of the file VERSION, the only place that the version is written to.
func Version() string {
	return strings.TrimSpace(version)
}

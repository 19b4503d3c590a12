// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package driveroptions

import (
	"runtime/debug"
	"strings"

	"k8s.io/component-base/version"

	release "github.com/gardener/machine-controller-manager-provider-kubevirt"
)

// placeholder is part of a value of package version that the linker has not set.
const placeholder = "$Format:"

// Version returns the text that --version prints: the release and, if known, the commit that the
// program was built from.
func Version() string {
	return strings.TrimSpace(Release() + " " + commit())
}

// Release returns the version without the commit. `make build` sets it; other builds, such as go
// run, use the content of the file VERSION.
func Release() string {
	if set := version.Get().GitVersion; !strings.Contains(set, placeholder) {
		return set
	}

	return release.Version()
}

// commit returns the commit that `make build` has set or go build has recorded; empty with go run.
func commit() string {
	if set := version.Get().GitCommit; !strings.Contains(set, placeholder) {
		return set
	}

	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}

	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}

	if settings["vcs.modified"] == "true" {
		return settings["vcs.revision"] + "-dirty"
	}

	return settings["vcs.revision"]
}

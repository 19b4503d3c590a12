package driverflags

import (
	"runtime/debug"
	"strings"

	"k8s.io/component-base/version"

	release "github.com/gardener/machine-controller-manager-provider-kubevirt"
)

// placeholder is in the values of package version that the linker did not set.
const placeholder = "$Format:"

// Version is what --version of both commands prints: the release and, if it is known, the commit that the program was built from.
func Version() string {
	return strings.TrimSpace(Release() + " " + commit())
}

// Release is the version without the commit. `make build` sets it; other builds, such as go run, have the content of the file VERSION.
func Release() string {
	if set := version.Get().GitVersion; !strings.Contains(set, placeholder) {
		return set
	}

	return release.Version()
}

// commit is set by `make build`, or else recorded by go build. It is empty under go run, which records none.
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

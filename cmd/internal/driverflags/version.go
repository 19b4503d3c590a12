package driverflags

import "k8s.io/component-base/version"

// Version is what --version of both commands prints: the version and the commit that the program was built of.
func Version() string {
	info := version.Get()

	return info.GitVersion + " " + info.GitCommit
}

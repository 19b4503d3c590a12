// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package checks

import "context"

// check is an independent part of the work. S is its scope: all classes, or one.
type check[S any] struct {
	// name is the name of its results that have no other. Scripts depend on the names, and
	// docs/troubleshooting.md describes each check and the permissions that it needs.
	name string
	// asDriver is set if the driver sends the requests, so that its permissions count.
	asDriver bool
	run      func(context.Context, *reader, S) []Result
}

// The checks, in the order of their results. The results of the login and of unusable classes come first.
var (
	beforeClasses = []check[*scope]{
		{"namespace", false, checkNamespace},
		{"kubevirt", false, checkKubeVirt},
		{"cdi", false, checkCDI},
		{"permission", true, checkPermissions},
		{"quota", false, checkQuota},
	}
	ofClass = []check[*class]{
		{"storage-class", false, checkStorageClasses},
		{"storage-profile", false, checkStorageProfiles},
		{"clone-strategy", false, checkCloneStrategies},
		{"source", false, checkSources},
		{"clone-permission", false, checkClonePermissions},
		{"zone", false, checkZone},
		{"device", false, checkDevices},
		{"network", false, checkNetworks},
		{"instancetype", false, checkInstancetype},
		{"preference", false, checkPreference},
		{"dry-run", true, checkDryRun},
	}
	afterClasses = []check[*scope]{
		{"unused-image", false, checkUnusedImages},
		{"leftover", false, checkLeftovers},
	}
)

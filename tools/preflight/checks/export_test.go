// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package checks

// Incompatibilities are the pairs of versions of KubeVirt and Kubernetes: the first version of KubeVirt that
// is not affected, and the first version of Kubernetes that is.
var Incompatibilities = func() (pairs [][2]string) {
	for _, i := range incompatibilities {
		pairs = append(pairs, [2]string{i.before, i.since})
	}

	return pairs
}()

// Names are the names of the checks, in the order of their results.
var Names = func() (names []string) {
	for _, c := range beforeClasses {
		names = append(names, c.name)
	}

	for _, c := range ofClass {
		names = append(names, c.name)
	}

	for _, c := range afterClasses {
		names = append(names, c.name)
	}

	return names
}()

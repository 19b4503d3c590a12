// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package binaries

import (
	"time"
)

// guestPrograms returns the steps that build the programs of real guests.
func (l layout) guestPrograms() []step { return []step{l.kubelet(), l.launcher(), l.importer()} }

// kubelet returns the step that builds the kubelet of real guests, and launcher the step that builds
// the program that writes their domains.
func (l layout) kubelet() step {
	outputs, p := one("kubelet", kubernetesLdflags(l.versions["kubelet"]), "k8s.io/kubernetes/cmd/kubelet")()
	return step{
		name:     "kubelet",
		module:   l.modules["kubelet"],
		target:   l.targets["kubelet"],
		outputs:  outputs,
		estimate: 60 * time.Second,
		produce:  p,
	}
}

func (l layout) launcher() step {
	outputs, p := one("launcher", ldflags, "./cmd/launcher")()
	return step{
		name:     "KubeVirt's converter",
		module:   l.modules["launcher"],
		target:   l.targets["launcher"],
		outputs:  outputs,
		estimate: 30 * time.Second,
		produce:  p,
	}
}

// importer returns the step that builds the program that imports the disk images of real guests.
func (l layout) importer() step {
	outputs, p := one("importer", ldflags, "./cmd/importer")()
	return step{
		name:     "CDI's importer",
		module:   l.modules["importer"],
		target:   l.targets["importer"],
		outputs:  outputs,
		estimate: 200 * time.Second,
		produce:  p,
	}
}

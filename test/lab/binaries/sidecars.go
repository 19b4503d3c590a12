// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package binaries

import (
	"os"
	"path"
	"path/filepath"
	"time"
)

// sidecarSet is a module set with the real programs that run beside a CSI driver in the control plane of a shoot.
type sidecarSet struct {
	set, module string
	programs    []string // packages of the module
	// oldest and newest are the minor versions of Kubernetes for which the Gardener extension deploys the programs;
	// empty if there is no limit (extension/imagevector/images.yaml).
	oldest, newest string
	estimate       time.Duration // after Gardener has been built, which shares packages with the sets for new versions
}

var sidecarSets = []sidecarSet{
	{
		set:      "csi-provisioner-5",
		module:   "github.com/kubernetes-csi/external-provisioner/v5",
		newest:   "1.33",
		programs: []string{"cmd/csi-provisioner"},
		estimate: 150 * time.Second,
	},
	{
		set:      "csi-provisioner-6",
		module:   "github.com/kubernetes-csi/external-provisioner/v6",
		oldest:   "1.34",
		programs: []string{"cmd/csi-provisioner"},
		estimate: 25 * time.Second,
	},
	{
		set:      "csi-attacher",
		module:   "github.com/kubernetes-csi/external-attacher/v4",
		programs: []string{"cmd/csi-attacher"},
		estimate: 10 * time.Second,
	},
	{
		set:      "csi-resizer-1",
		module:   "github.com/kubernetes-csi/external-resizer",
		newest:   "1.33",
		programs: []string{"cmd/csi-resizer"},
		estimate: 30 * time.Second,
	},
	{
		set:      "csi-resizer-2",
		module:   "github.com/kubernetes-csi/external-resizer/v2",
		oldest:   "1.34",
		programs: []string{"cmd/csi-resizer"},
		estimate: 10 * time.Second,
	},
	{
		set:      "csi-snapshotter",
		module:   "github.com/kubernetes-csi/external-snapshotter/v8",
		programs: []string{"cmd/csi-snapshotter", "cmd/snapshot-controller"},
		estimate: 20 * time.Second,
	},
}

// runsWith reports whether the extension deploys the programs into shoots with a minor version of Kubernetes.
func (s sidecarSet) runsWith(minor string) bool {
	return s.oldest <= minor && (s.newest == "" || minor <= s.newest)
}

// csiDriver is the set of the program that takes the place of KubeVirt's CSI driver.
const csiDriver = "csi-driver"

// sidecars returns the steps that build the programs beside a CSI driver for the chosen Kubernetes.
func (l layout) sidecars() []step {
	var steps []step
	for _, s := range sidecarSets {
		if s.runsWith(l.versions[kubernetes.set].Minor()) {
			steps = append(steps, s.step(l))
		}
	}
	return steps
}

func (s sidecarSet) step(l layout) step {
	var outputs, packages []string
	for _, program := range s.programs {
		outputs, packages = append(outputs, path.Base(program)), append(packages, s.module+"/"+program)
	}
	return step{
		name:     s.set + " " + string(l.versions[s.set]),
		module:   l.modules[s.set],
		target:   l.targets[s.set],
		outputs:  outputs,
		estimate: s.estimate,
		produce:  compiled(ldflags, packages...),
	}
}

// csiDriver returns the step that builds the driver.
func (l layout) csiDriver() step {
	return step{
		name:     "CSI driver",
		module:   l.modules[csiDriver],
		target:   l.targets[csiDriver],
		outputs:  []string{csiDriver},
		estimate: 5 * time.Second,
		produce:  compiled(ldflags, "./cmd/csi-driver"),
	}
}

// builtSidecars returns the paths of the programs by the ends of their images: csi-attacher:v4.13.0.
func (l layout) builtSidecars() map[string]string {
	built := map[string]string{}
	for _, s := range sidecarSets {
		for _, program := range s.programs {
			file := filepath.Join(l.targets[s.set], path.Base(program))
			if _, err := os.Stat(file); err == nil {
				built[path.Base(program)+":"+string(l.versions[s.set])] = file
			}
		}
	}
	return built
}

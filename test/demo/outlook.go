// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/demo/requirements"
)

func (d *demo) checkRequirements(ctx context.Context) error {
	return requirements.Check{Screen: d.out, RealNodes: d.realNodes, Outlook: d.outlook}.Run(ctx)
}

// outlook returns an estimate of the demo's duration.
func (d *demo) outlook(lab, nodes bool) string {
	switch {
	case d.realNodes && lab && nodes:
		return "The lab and its nodes were built here before: on 2 idle CPUs, the demo takes 4 minutes. QEMU emulates the worker's processor\n" +
			"where the machine has no KVM."
	case d.realNodes:
		return "The first time, the lab, KubeVirt's programs for nodes and the nodes' images are built: on 2 idle CPUs, this takes 20 to 40 minutes.\n" +
			"Then the demo takes 4 minutes. QEMU emulates the worker's processor where the machine has no KVM."
	case lab:
		return "The lab was built here before: the demo takes 2 minutes."
	}
	return "The first time, the lab is built from source: etcd, Kubernetes, KubeVirt, CDI and machine-controller-manager. On 2 CPUs this\n" +
		"takes 10 to 20 minutes; the binaries are kept for the next time. The driver's objects are shown after 3 to 5 minutes."
}

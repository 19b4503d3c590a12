// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/demo/requirements"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/screen"
)

// duration is the time that a chapter took.
type duration struct {
	title string
	took  time.Duration
}

func (d *demo) checkRequirements(ctx context.Context) error {
	return requirements.Check{Screen: d.out, Built: []string{"gardener-*/gardener-apiserver"}, Outlook: outlook}.Run(ctx)
}

// outlook returns an estimate of the duration.
func outlook(lab, _ bool) string {
	if lab {
		return "The components were built here before: the demonstration takes 3 to 4 minutes."
	}

	return "The first time, all components are built from source: etcd, Kubernetes, KubeVirt, CDI, machine-controller-manager and Gardener.\n" +
		"On 2 CPUs this takes 20 to 35 minutes, and needs a Go module proxy; the binaries are kept for the next time."
}

// summarize prints the results of a demonstration that has shown everything.
func (d *demo) summarize() {
	for _, line := range []string{
		"",
		"=== Results",
		"  - the admission rejected a Shoot with a mistake, and named its field and the remedy",
		"  - the Shoot of the 2020 user guide became two virtual machines with Ready Nodes; a Service got the address of a load balancer",
		"  - the drain of a provider node replaced the machine on it, whose pods moved one by one",
		"  - another binding and a new image version replaced both machines; then the same drain live-migrated the machine, and no pod moved",
		"  - after the deletion, nothing of the shoot was left in the garden, in the seed and in the provider cluster",
		"Real: the API servers, gardener-apiserver, gardener-resource-manager, the extension and its admission, machine-controller-manager with",
		"the driver, KubeVirt and CDI. Simulated: provider nodes, storage, guests, the seed's kubelet and gardenlet's flow.",
		"",
		"=== Durations",
	} {
		d.out.Line("%s", line)
	}

	for _, s := range d.spent {
		d.out.Line("  %6s  %s", screen.Clock(s.took), s.title)
	}

	d.out.Line("  %6s  in total", screen.Clock(time.Since(d.begun)))

	for _, line := range []string{
		"",
		"=== Next steps",
		"  make landscape                       runs these clusters without the extension, to install it and to break it by hand",
		"  extension/docs/development/local-setup.md        describes the landscape, and faults to try",
		"  extension/docs/operations/deployment.md         installs the extension in a garden",
		"  make test-extension                  runs the tests against the same control planes",
	} {
		d.out.Line("%s", line)
	}
}

// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/screen"
)

// summarize prints the results of a successful demo.
func (d *demo) summarize() {
	d.out.Line("")
	d.out.Line("=== Results")
	results := d.results()
	if d.realNodes {
		results = d.nodesResults()
	}
	for _, fact := range results {
		d.out.Line("  - %s", fact)
	}
	if d.realNodes {
		d.out.Line("Real: the control planes, the provider nodes with kubelet, containerd, virt-handler, virt-launcher, libvirt and QEMU, the driver.")
		d.out.Line("Without KVM, QEMU emulates the processor of the guest.")
	} else {
		d.out.Line("Real: the Kubernetes, KubeVirt and CDI control planes, machine-controller-manager, the driver. Simulated: provider nodes,")
		d.out.Line("storage, and the guests, which boot at once.")
	}
	d.out.Line("")
	d.out.Line("=== Durations")
	for _, s := range d.spent {
		d.out.Line("  %6s  %s", screen.Clock(s.took), s.title)
	}
	d.out.Line("  %6s  in total", screen.Clock(time.Since(d.begun)))
	d.out.Line("")
	d.suggestNext()
}

// nothingLeft is the result of checkLeftovers.
const nothingLeft = "after the deletion nothing was left: on the provider cluster no VM, VMI, DataVolume, claim, pod or Secret; in the shoot no Node"

func (d *demo) results() []string {
	median, longest := d.seen.readiness()
	return []string{
		fmt.Sprintf("%d Machines became %d VirtualMachines on %d provider nodes, at most %d at a time",
			len(d.seen.machines), len(d.seen.vms), len(d.seen.hosts), d.seen.most),
		fmt.Sprintf("%d of them ran, each in the requested zone, with a Ready shoot node after a median of %s s, %s s at most",
			len(d.seen.ready), seconds(median), seconds(longest)),
		fmt.Sprintf("the one in a zone without nodes reported %s after %s s", resourceExhausted, seconds(d.seen.exhaust)),
		nothingLeft,
	}
}

// suggestNext prints commands that users may try after the demo.
func (d *demo) suggestNext() {
	d.out.Line("=== Next steps")
	if d.keep {
		d.suggestCommands()
	} else {
		d.out.Line("  make demo KEEP=1        leaves the lab running, for your own kubectl commands")
		d.out.Line("  make demo DRIVER=grpc   runs the driver in a separate process")
		if d.realNodes {
			d.out.Line("  make test-node          tests the driver on real provider nodes")
		}
	}
	d.out.Line("  make test               runs the tests against the same control planes")
	d.out.Line("  bin/mcm-kubevirt render -f kubernetes/example/machineclasses.yaml --class %s --machine NAME", classZ2)
}

// suggestCommands prints commands for the lab that is left running.
func (d *demo) suggestCommands() {
	d.out.Line("  The lab is still running, with its machines. For its commands in this shell (bash or zsh):")
	d.out.Line("    source %s", atHome(d.lab.Shell))
	d.out.Line("")
	for _, c := range []struct{ command, effect string }{
		{"control get machines", "kubectl for the control cluster: Machines, MachineDeployments, MachineClasses"},
		{"control scale machinedeployment " + classZ1 + " --replicas=3", ""},
		{"control delete machine NAME", "drains the node, deletes the VM and creates a new one"},
		{"target get nodes", "kubectl for the shoot"},
		{"provider get virtualmachines,virtualmachineinstances,datavolumes", "kubectl for the provider cluster"},
		{"mcm-kubevirt preflight", "checks whether the provider cluster can run the machines of the MachineClasses"},
		{"mcm-kubevirt diagnose NAME", "explains the state of a Machine"},
	} {
		d.out.Line("    %s", describe(c.command, c.effect))
	}
	d.out.Line("")
	d.out.Line("  less %s   # the log of the driver", atHome(d.driverLog()))
	d.out.Line("  %s", describe("make demo-restart", "builds the driver after a change, and restarts it"))
	d.out.Line("  %s", describe("make demo-stop", "stops the lab and removes its data"))
	d.out.Line("")
}

// driverLog returns the path of the log of the driver's process.
func (d *demo) driverLog() string {
	if d.overGRPC {
		return filepath.Join(d.lab.LogDir, labName+"-driver.log")
	}
	return filepath.Join(d.lab.LogDir, labName+"-machine-controller.log")
}

// describe returns a command followed by a comment.
func describe(command, effect string) string {
	if effect == "" {
		return command
	}
	return fmt.Sprintf("%-28s # %s", command, effect)
}

func seconds(d time.Duration) string {
	return fmt.Sprintf("%.0f", d.Seconds())
}

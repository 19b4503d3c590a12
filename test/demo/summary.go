package main

import (
	"fmt"
	"time"
)

// summarize ends a show in which everything that was announced was seen.
func (d *demo) summarize() {
	d.out.line("")
	d.out.line("=== What was seen")
	median, longest := d.seen.readiness()
	for _, fact := range []string{
		fmt.Sprintf("%d Machines became %d VirtualMachines on %d provider nodes, at most %d at a time",
			len(d.seen.machines), len(d.seen.vms), len(d.seen.hosts), d.seen.most),
		fmt.Sprintf("%d of them ran, each in the zone asked for, with a Ready shoot node after %s s in the median, %s s at most",
			len(d.seen.ready), seconds(median), seconds(longest)),
		fmt.Sprintf("the one in a zone without nodes said %s after %s s", resourceExhausted, seconds(d.seen.exhaust)),
		"after the deletion nothing was left: on the provider cluster no VM, VMI, DataVolume, claim, pod or Secret; in the shoot no Node",
	} {
		d.out.line("  - %s", fact)
	}
	d.out.line("Real: the Kubernetes, KubeVirt and CDI control planes, machine-controller-manager, the driver. Simulated: provider nodes,")
	d.out.line("storage, and the guests, which boot in no time.")
	d.out.line("")
	d.out.line("=== Where the time went")
	for _, s := range d.spent {
		d.out.line("  %6s  %s", clock(s.took), s.title)
	}
	d.out.line("  %6s  in all", clock(time.Since(d.begun)))
	d.out.line("")
	d.out.line("=== What to try next")
	if d.keep {
		d.suggestCommands()
	} else {
		d.out.line("  make demo KEEP=1        leaves the lab running, for your own kubectl commands")
		d.out.line("  make demo DRIVER=grpc   has the driver in a process of its own")
	}
	d.out.line("  make test               runs the tests against the same control planes")
	d.out.line("  bin/mcm-kubevirt render -f kubernetes/example/machineclasses.yaml --class %s --machine NAME", classZ2)
}

// suggestCommands says how to use the lab that is left running.
func (d *demo) suggestCommands() {
	control, provider := d.control(), d.provider()
	d.out.line("  The lab is left running, with three machines. The last line ends it.")
	for _, line := range []string{
		"alias kubectl=" + d.lab.Kubectl,
		"",
		"export KUBECONFIG=" + control.kubeconfig + "   # control cluster: Machines; and the shoot: Nodes",
		"kubectl -n " + control.namespace + " get machines",
		"kubectl -n " + control.namespace + " scale machinedeployment " + classZ1 + " --replicas=3",
		"kubectl -n " + control.namespace + " delete machine NAME   # it is drained and replaced",
		"kubectl get nodes",
		"",
		"export KUBECONFIG=" + provider.kubeconfig + "   # provider cluster: VMs",
		"kubectl -n " + provider.namespace + " get virtualmachines,virtualmachineinstances,datavolumes",
		"kubectl get nodes -L topology.kubernetes.io/zone",
		"",
		"less " + d.lab.LogDir + "/" + labName + "-machine-controller.log   # the driver's log",
		"make demo-stop",
	} {
		d.out.line("    %s", atHome(line))
	}
	d.out.line("")
}

func seconds(d time.Duration) string {
	return fmt.Sprintf("%.0f", d.Seconds())
}

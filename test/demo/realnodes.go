// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/screen"
)

// nodesContents are the chapters of the demo with real provider nodes.
func nodesContents(keep bool) []chapter {
	all := []chapter{
		{title: "Check the requirements", play: (*demo).checkRequirements},
		{title: "Build the driver", play: (*demo).buildDriver},
		{title: "Start the lab with two real nodes", play: (*demo).startLab},
		{title: "Create a worker, whose guest counts", play: (*demo).createCounter},
		{title: "Live-migrate the worker while it counts", play: (*demo).migrateCounter},
		{title: "Drain its provider node", play: (*demo).drainCounter},
	}
	if keep {
		return all
	}
	return append(all,
		chapter{title: "Delete it", play: (*demo).deleteCounter},
		chapter{title: "Check that nothing is left", play: (*demo).checkLeftovers})
}

//go:embed counter.yaml
var counterManifests []byte

// counter is the worker whose guest counts.
type counter struct {
	node  string // on which it runs
	first int64  // the first number on its console, which begins again on another node
	last  int64
}

// createCounter creates a machine, and waits until its guest counts.
func (d *demo) createCounter(ctx context.Context) error {
	d.out.Line("The guest is a boot sector that counts seconds on its serial console. It runs in QEMU on a real node: kubelet, containerd, KubeVirt's")
	d.out.Line("virt-handler and virt-launcher. It has no kubelet itself, so that its Machine stays Pending.")
	err := d.kubectl(ctx, d.control(), "create", "secret", "generic", credentials, "--from-file=kubeconfig="+d.lab.Shoot.ProviderKubeconfig)
	if err != nil {
		return err
	}
	d.out.Line("The objects are in test/demo/counter.yaml.")
	if err := d.kubectlWith(ctx, d.control(), counterManifests, "apply", "-f", "-"); err != nil {
		return err
	}
	begun := time.Now()
	if err := d.awaitCounter(ctx, "a guest that counts on a provider node", func(c counter) bool { return c.last > c.first }); err != nil {
		return err
	}
	d.out.Line("Seen after %s: the guest counts on %s, its console shows %d.", screen.Clock(time.Since(begun)), d.counter.node, d.counter.last)
	return nil
}

const migration = `apiVersion: kubevirt.io/v1
kind: VirtualMachineInstanceMigration
metadata: {name: demo}
spec: {vmiName: %s}
`

// migrateCounter live-migrates the machine, as an administrator of the provider cluster would.
func (d *demo) migrateCounter(ctx context.Context) error {
	seen, err := d.look(ctx)
	if err != nil {
		return err
	}
	for name := range seen.instances {
		manifest := fmt.Sprintf(migration, name)
		d.out.Line("%s", indent(manifest))
		if err := d.kubectlWith(ctx, d.provider(), []byte(manifest), "apply", "-f", "-"); err != nil {
			return err
		}
	}
	if err := d.awaitMove(ctx); err != nil {
		return err
	}
	return d.kubectl(ctx, d.provider(), "delete", "virtualmachineinstancemigration", "demo")
}

// drainCounter drains the provider node of the machine, which KubeVirt live-migrates.
func (d *demo) drainCounter(ctx context.Context) error {
	source := d.counter.node
	args := []string{"drain", source, "--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=" + d.stepTimeout().String()}
	d.out.Line("%s $ kubectl %s", d.provider().name, strings.Join(args, " "))
	command := d.kubectlCommand(ctx, d.provider(), args...)
	drained := make(chan error, 1)
	var output []byte
	go func() {
		var err error
		output, err = d.execute(command)
		drained <- err
	}()
	moved := d.awaitMove(ctx)
	err := <-drained
	d.out.Line("%s", indent(string(output)))
	if err := errors.Join(moved, err); err != nil {
		return err
	}
	return d.kubectl(ctx, d.provider(), "uncordon", source)
}

// awaitMove waits until the machine runs on another node, and has counted on.
func (d *demo) awaitMove(ctx context.Context) error {
	const more = 2 // numbers on the new console
	before := d.counter
	expected := fmt.Sprintf("the guest on another node than %s, counting on from %d", before.node, before.last)
	begun := time.Now()
	err := d.awaitCounter(ctx, expected, func(c counter) bool { return c.node != before.node && c.last >= c.first+more })
	if err != nil {
		return err
	}
	// A guest that had booted again would begin with 1.
	if d.counter.first <= before.last {
		return fmt.Errorf("expected that the guest counts on from %d. Seen: from %d. Logs: %s", before.last, d.counter.first, d.lab.LogDir)
	}
	d.moves++
	d.out.Line("Seen after %s: the guest has moved from %s, where it had counted to %d, to %s, where it has counted on from %d to %d.",
		screen.Clock(time.Since(begun)), before.node, before.last, d.counter.node, d.counter.first, d.counter.last)
	return nil
}

// awaitCounter shows the table until the machine is as expected.
func (d *demo) awaitCounter(ctx context.Context, expected string, reached func(counter) bool) error {
	_, err := d.await(ctx, expected, func(s snapshot) string {
		for _, instance := range s.instances {
			if d.counter.node != instance.Status.NodeName {
				d.counter = counter{node: instance.Status.NodeName} // it has another console
			}
		}
		if counts, err := d.counts(ctx); err == nil && len(counts) > 0 {
			d.counter.first, d.counter.last = counts[0], counts[len(counts)-1]
		}
		if reached(d.counter) {
			return ""
		}
		return fmt.Sprintf("a guest on %q that has counted to %d", d.counter.node, d.counter.last)
	})
	return err
}

// counts returns the numbers on the console of the launcher on the machine's node.
func (d *demo) counts(ctx context.Context) ([]int64, error) {
	if d.counter.node == "" {
		return nil, nil
	}
	pods, err := d.list(ctx, d.provider(), "pods", "--selector=kubevirt.io=virt-launcher",
		"--field-selector=status.phase=Running,spec.nodeName="+d.counter.node)
	if err != nil || len(pods) == 0 {
		return nil, err
	}
	output, err := d.execute(d.kubectlCommand(ctx, d.provider(), "logs", pods[0].Metadata.Name, "--container=guest-console-log"))
	return parseCounts(string(output)), err
}

// parseCounts returns the numbers of complete lines on a console.
func parseCounts(console string) []int64 {
	const digits = 4
	var counts []int64
	for line := range strings.Lines(console) {
		line = strings.TrimSpace(line)
		if count, err := strconv.ParseInt(line, 16, 64); err == nil && len(line) == digits {
			counts = append(counts, count)
		}
	}
	return counts
}

// counterConsole is the line below the table.
func (d *demo) counterConsole() string {
	if d.counter.node == "" {
		return ""
	}
	return fmt.Sprintf("\n  console: %d", d.counter.last)
}

func (d *demo) deleteCounter(ctx context.Context) error {
	d.counter = counter{}
	for _, kind := range []string{"machinedeployments", "machineclasses"} {
		if err := d.kubectl(ctx, d.control(), "delete", kind, "--all", "--wait=false"); err != nil {
			return err
		}
	}
	if err := d.awaitWorkers(ctx, workers{}); err != nil {
		return err
	}
	const timeout = "--timeout=1m"
	if err := d.kubectl(ctx, d.control(), "delete", "machineclasses", "--all", timeout); err != nil {
		return err
	}
	return d.kubectl(ctx, d.control(), "delete", "secrets", credentials, "example-worker-userdata", timeout)
}

// nodesResults are the results of the demo with real nodes.
func (d *demo) nodesResults() []string {
	all := []string{
		"a Machine became a guest of QEMU under KubeVirt's virt-launcher, on a node of a real kubelet",
		fmt.Sprintf("the guest was live-migrated %d times, by hand and by the drain of its node, and counted on", d.moves),
	}
	if d.keep {
		return all
	}
	return append(all, nothingLeft)
}

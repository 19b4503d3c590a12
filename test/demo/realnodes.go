// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
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
		{title: "Create a worker, which boots, joins and counts", play: (*demo).createRealWorker},
		{title: "Live-migrate the worker while it counts", play: (*demo).migrateCounter},
		{title: "Drain its provider node", play: (*demo).drainCounter},
	}
	if keep {
		return all
	}
	return append(all,
		chapter{title: "Delete it", play: (*demo).deleteRealWorker},
		chapter{title: "Check that nothing is left", play: (*demo).checkLeftovers})
}

//go:embed realworker.yaml
var realWorker string

// counting lets the guest count seconds on its serial console, in four hexadecimal digits, from its boot on. The unit must not wait for
// the targets that come after cloud-init, which waits for the command.
const counting = `bootcmd:
  - [systemd-run, --unit=counter, --no-block, --property=DefaultDependencies=no, --expand-environment=no, sh, -c, 'n=0; while sleep 1; do n=$((n+1)); printf "%04x\r\n" $n > /dev/ttyS0; done']
`

// counter is what the console of the worker shows.
type counter struct {
	node  string // on which it runs
	first int64  // the first number on its console, which begins again on another node
	last  int64
}

// createRealWorker creates a machine, and waits until its guest has joined.
func (d *demo) createRealWorker(ctx context.Context) error {
	d.out.Line("The guest is Debian with cloud-init, containerd and kubelet. It runs in QEMU on a real node: kubelet, containerd, KubeVirt's virt-handler")
	d.out.Line("and virt-launcher. Its kubelet joins with a bootstrap token. It counts seconds on its serial console.")
	err := d.kubectl(ctx, d.control(), "create", "secret", "generic", credentials, "--from-file=kubeconfig="+d.lab.Shoot.ProviderKubeconfig)
	if err != nil {
		return err
	}
	if err := d.createUserData(ctx); err != nil {
		return err
	}
	d.out.Line("The objects are in test/demo/realworker.yaml.")
	manifests := strings.ReplaceAll(realWorker, "GUEST_DISK", d.lab.GuestDisk)
	if err := d.kubectlWith(ctx, d.control(), []byte(manifests), "apply", "-f", "-"); err != nil {
		return err
	}
	if err := d.awaitWorkers(ctx, realWorkers); err != nil {
		return err
	}
	return d.awaitCounter(ctx, "a guest that counts", func(c counter) bool { return c.last > c.first })
}

// realWorkers are those that run until the end of the demo.
var realWorkers = workers{classZ1: 1}

// createUserData creates the Secret with the user data of kubernetes/example, and lets the guest count.
func (d *demo) createUserData(ctx context.Context) error {
	text, err := os.ReadFile(d.lab.GuestUserData)
	if err != nil {
		return err
	}
	d.out.Line("The user data are those of kubernetes/example/userdata.yaml, without the installation of packages, which the image has.")
	manifest, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "example-worker-userdata"},
		"stringData": map[string]any{"userData": string(text) + counting},
	})
	if err != nil {
		return err
	}
	return d.kubectlWith(ctx, d.control(), manifest, "apply", "-f", "-")
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
	if err := d.awaitWorkers(ctx, realWorkers); err != nil {
		return err
	}
	d.moves++
	d.out.Line("Seen after %s: the guest has moved from %s, where it had counted to %d, to %s, where it has counted on from %d to %d.",
		screen.Clock(time.Since(begun)), before.node, before.last, d.counter.node, d.counter.first, d.counter.last)
	return nil
}

// awaitCounter shows the table until the counter is as expected.
func (d *demo) awaitCounter(ctx context.Context, expected string, reached func(counter) bool) error {
	_, err := d.await(ctx, expected, func(snapshot) string {
		if reached(d.counter) {
			return ""
		}
		return fmt.Sprintf("a guest on %q that has counted to %d", d.counter.node, d.counter.last)
	})
	return err
}

// readCounter reads what the console of the worker shows.
func (d *demo) readCounter(ctx context.Context, s snapshot) {
	for _, instance := range s.instances {
		if d.counter.node != instance.Status.NodeName {
			d.counter = counter{node: instance.Status.NodeName} // it has another console
		}
	}
	if counts, err := d.counts(ctx); err == nil && len(counts) > 0 {
		d.counter.first, d.counter.last = counts[0], counts[len(counts)-1]
	}
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
	if d.counter.last == 0 {
		return ""
	}
	return fmt.Sprintf("\n  console: %d", d.counter.last)
}

func (d *demo) deleteRealWorker(ctx context.Context) error {
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
		"a Machine became a guest of QEMU under KubeVirt's virt-launcher, on a node of a real kubelet, and its own kubelet joined",
		fmt.Sprintf("the guest was live-migrated %d times, by hand and by the drain of its node; it counted on, and its Node stayed", d.moves),
	}
	if d.keep {
		return all
	}
	return append(all, nothingLeft)
}

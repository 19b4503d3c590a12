// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// realContents are the chapters of the demo with a worker that boots.
func realContents(keep bool) []chapter {
	all := []chapter{
		{title: "Check the requirements", play: (*demo).checkRequirements},
		{title: "Build the driver", play: (*demo).buildDriver},
		{title: "Start the lab", play: (*demo).startLab},
		{title: "Boot a worker", play: (*demo).bootWorker},
	}
	if keep {
		return all
	}
	return append(all,
		chapter{title: "Delete it", play: (*demo).deleteWorker},
		chapter{title: "Check that nothing is left", play: (*demo).checkLeftovers})
}

// bootWorker creates one machine, whose guest boots, and shows its console below the table.
func (d *demo) bootWorker(ctx context.Context) error {
	d.out.Line("Until the worker's kubelet has joined, it takes one to three minutes on two idle CPUs, and longer beside other work. Below the")
	d.out.Line("table are the last lines of the worker's console.")
	userData, err := d.realUserData(ctx)
	if err != nil {
		return err
	}
	class, err := d.realClass()
	if err != nil {
		return err
	}
	for _, step := range []func() error{
		func() error {
			return d.kubectl(ctx, d.control(), "create", "secret", "generic", credentials, "--from-file=kubeconfig="+d.lab.Shoot.ProviderKubeconfig)
		},
		func() error { return d.kubectlWith(ctx, d.control(), userData, "apply", "-f", "-") },
		func() error { return d.kubectlWith(ctx, d.control(), class, "apply", "-f", "-") },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	if err := d.awaitWorkers(ctx, workers{classZ1: 1}); err != nil {
		return err
	}
	return d.awaitGuest(ctx)
}

// guestSystem is the ID of the guests' operating system, as the guest agent reports it.
const guestSystem = "debian"

// awaitGuest waits until the guest agent and kubelet report the operating system of the image. A
// simulated guest reports neither.
func (d *demo) awaitGuest(ctx context.Context) error {
	_, err := d.await(ctx, "a guest agent and a Node that report "+guestSystem, func(s snapshot) string {
		for name, instance := range s.instances {
			if instance.Status.GuestOSInfo.ID != guestSystem {
				return fmt.Sprintf("the guest agent of %s reports %q", name, instance.Status.GuestOSInfo.ID)
			}
		}
		for name, node := range s.shootNodes {
			if !strings.Contains(strings.ToLower(node.Status.NodeInfo.OSImage), guestSystem) {
				return fmt.Sprintf("Node %s reports %q", name, node.Status.NodeInfo.OSImage)
			}
		}
		return ""
	})
	return err
}

// realResults are the results of the demo with a worker that boots.
func (d *demo) realResults() []string {
	_, longest := d.seen.readiness()
	all := []string{
		"a Debian guest booted from the driver's VirtualMachine, and its agent reported the operating system",
		fmt.Sprintf("the user data started kubelet, which joined with machine-controller-manager's bootstrap token: Ready after %s s", seconds(longest)),
	}
	if d.keep {
		return all
	}
	return append(all, "the guest shut down when its Machine was deleted", nothingLeft)
}

// deleteWorker deletes the machine, whose operating system shuts down, and everything else.
func (d *demo) deleteWorker(ctx context.Context) error {
	d.out.Line("machine-controller-manager drains the Node; then the VM's power button is pressed, and kubelet and systemd shut down.")
	waiting, cancel := context.WithTimeout(ctx, d.stepTimeout())
	defer cancel()
	shutdown := d.watchShutdown(waiting)
	for _, kind := range []string{"machinedeployments", "machineclasses"} {
		if err := d.kubectl(ctx, d.control(), "delete", kind, "--all", "--wait=false"); err != nil {
			return err
		}
	}
	if err := d.awaitWorkers(ctx, workers{}); err != nil {
		return err
	}
	if err := <-shutdown; err != nil {
		return fmt.Errorf("expected that the guest shuts down: %w. Logs: %s", err, d.lab.LogDir)
	}
	const timeout = "--timeout=1m"
	if err := d.kubectl(ctx, d.control(), "delete", "machineclasses", "--all", timeout); err != nil {
		return err
	}
	return d.kubectl(ctx, d.control(), "delete", "secrets", credentials, "example-worker-userdata", timeout)
}

// watchShutdown waits in the background for the phase Succeeded of the instance, which it has only if
// the guest has shut down: that of a guest that was killed is Failed.
func (d *demo) watchShutdown(ctx context.Context) <-chan error {
	result := make(chan error, 1)
	command := d.kubectlCommand(ctx, d.provider(), "wait", "virtualmachineinstances", "--all", "--for=jsonpath={.status.phase}=Succeeded",
		"--timeout="+d.stepTimeout().String())
	go func() {
		_, err := d.execute(command)
		result <- err
	}()
	return result
}

// installation are the lines of the example's user data that install packages, which the guests' image
// contains.
var installation = regexp.MustCompile(`(?m)^( *(package_update|packages):.*| *curl .*| *echo 'deb .*| *apt-(get|mark) .*)\n`)

// guestsServer is the address of the loopback interface of the host in the guests' network.
const guestsServer = "10.0.2.2"

// realUserData returns the Secret with the example's user data for the target cluster.
func (d *demo) realUserData(ctx context.Context) ([]byte, error) {
	example, err := os.ReadFile(filepath.Join(d.root, manifests, "userdata.yaml"))
	if err != nil {
		return nil, fmt.Errorf("read the example: %w", err)
	}
	output, err := d.execute(d.kubectlCommand(ctx, d.control(), "config", "view", "--raw", "--minify", "--output=json"))
	if err != nil {
		return nil, fmt.Errorf("read the address of the target cluster: %w", err)
	}
	var config struct {
		Clusters []struct {
			Cluster struct {
				Server string `json:"server"`
				CA     []byte `json:"certificate-authority-data"`
			} `json:"cluster"`
		} `json:"clusters"`
	}
	if err := json.Unmarshal(output, &config); err != nil || len(config.Clusters) != 1 {
		return nil, fmt.Errorf("read the address of the target cluster: %d clusters: %w", len(config.Clusters), err)
	}
	server, err := url.Parse(config.Clusters[0].Cluster.Server)
	if err != nil {
		return nil, fmt.Errorf("read the address of the target cluster: %w", err)
	}
	return []byte(strings.NewReplacer(
		"server: API_SERVER", "server: https://"+guestsServer+":"+server.Port(),
		"content: CA_CERTIFICATE", "content: "+base64.StdEncoding.EncodeToString(config.Clusters[0].Cluster.CA),
		"[CLUSTER_DNS]", "[10.96.0.10]",
	).Replace(installation.ReplaceAllString(string(example), ""))), nil
}

// realClass returns the example's first MachineClass and MachineDeployment, for one machine that boots.
func (d *demo) realClass() ([]byte, error) {
	var documents []string
	for _, change := range []struct{ file, old, with string }{
		{
			"machineclasses.yaml", "    guest: 4Gi\n  rootVolume:\n", // The guest needs less.
			"    guest: 1Gi\n  virtualMachineTemplate:\n    spec: {template: {metadata: {annotations: {sim.lab/guest: real}}}}\n  rootVolume:\n",
		},
		{"machinedeployments.yaml", "  replicas: 2\n", "  replicas: 1\n"},
	} {
		data, err := os.ReadFile(filepath.Join(d.root, manifests, change.file))
		if err != nil {
			return nil, fmt.Errorf("read the example: %w", err)
		}
		first, _, _ := strings.Cut(string(data), "\n---\n")
		if !strings.Contains(first, change.old) {
			return nil, fmt.Errorf("%s does not contain %q", change.file, change.old)
		}
		documents = append(documents, strings.Replace(first, change.old, change.with, 1))
	}
	return []byte(strings.Join(documents, "\n---\n")), nil
}

const consoleLines = 4

// console returns the last lines on the worker's console.
func (d *demo) console() string {
	files, err := filepath.Glob(filepath.Join(d.lab.LogDir, "console-*.log"))
	if err != nil || len(files) == 0 {
		return "\n  console: (not started)"
	}
	data, err := os.ReadFile(files[len(files)-1])
	if err != nil {
		return ""
	}
	var lines []string
	for line := range strings.Lines(string(data)) {
		if line = printable(line); line != "" {
			lines = append(lines, line)
		}
	}
	if len(lines) == 0 {
		return "\n  console: (empty)"
	}
	return "\n  console:\n    " + strings.Join(lines[max(0, len(lines)-consoleLines):], "\n    ")
}

// escapes are the sequences with which systemd colors its messages.
var escapes = regexp.MustCompile(`\x1b\[[0-9;?]*[a-zA-Z]|\x1bc|\x1b[()][A-Z0-9]`)

// printable returns a line of a console without what would disturb the table.
func printable(line string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if r < ' ' {
			return -1
		}
		return r
	}, escapes.ReplaceAllString(line, "")))
}

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
	return d.awaitWorkers(ctx, workers{classZ1: 1})
}

// realResults are the results of the demo with a worker that boots.
func (d *demo) realResults() []string {
	_, longest := d.seen.readiness()
	all := []string{
		"a Debian guest booted from the driver's VirtualMachine, read its user data, and started kubelet",
		fmt.Sprintf("kubelet joined with machine-controller-manager's bootstrap token: Running, with a Ready shoot node after %s s", seconds(longest)),
	}
	if d.keep {
		return all
	}
	return append(all, "the guest shut down when its Machine was deleted", nothingLeft)
}

// deleteWorker deletes the machine, whose operating system shuts down, and everything else.
func (d *demo) deleteWorker(ctx context.Context) error {
	d.out.Line("machine-controller-manager drains the Node; then the VM's power button is pressed, and kubelet and systemd shut down.")
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
		{"machineclasses.yaml", "  rootVolume:\n", "  virtualMachineTemplate:\n    spec: {template: {metadata: {annotations: {sim.lab/guest: real}}}}\n  rootVolume:\n"},
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

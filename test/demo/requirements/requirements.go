// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package requirements checks whether this machine can run a demo, and prints what was found. Both
// demos call it before anything that takes long. It must not know what they show.
package requirements

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/binaries"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/node/host"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/screen"
)

const gib = 1 << 30

// facts are the properties of the host. Zero bytes mean unknown.
type facts struct {
	os     string
	cpus   int
	goTool string // version of the go command; empty: not found
	cached bool   // the lab was built before
	folder string // the relevant folder with the least free disk space
	disk   uint64
	memory uint64
	nodes  *realFacts // nil: provider nodes are simulated
}

// realFacts are the properties of a host that are needed for real provider nodes.
type realFacts struct {
	missing error // nil: nothing
	cached  bool  // what only they need was built before
}

// Requirements of a first run, and of a run with cached binaries.
const (
	firstDisk   = 12 * gib
	laterDisk   = 2 * gib
	leastMemory = 4 * gib
)

// Requirements of real provider nodes, on top of those of the lab.
const (
	nodesMemory = 3 * gib // of containerd, kubelet, virt-handler and the launchers on two nodes, and of the guest
	nodesDisk   = 4 * gib // of the images on two nodes
	nodesBuild  = 8 * gib // of a first build of their programs and images
)

// Check is what a demo needs.
type Check struct {
	// Screen shows the properties of the machine, and what is missing.
	Screen *screen.Screen
	// RealNodes is set if provider nodes are real.
	RealNodes bool
	// Built are patterns of files in the lab's cache that the demo needs in addition to those of the lab.
	Built []string
	// Outlook returns how long the demo takes if the lab and what real nodes need were built before, or were not.
	Outlook func(lab, nodes bool) string
}

// Run returns an error if something is missing.
func (c Check) Run(ctx context.Context) error {
	found, err := c.gatherFacts(ctx)
	if err != nil {
		return err
	}
	for _, line := range found.describe() {
		c.Screen.Line("  %s", line)
	}
	problems := found.problems()
	for _, problem := range problems {
		c.Screen.Line("  MISSING: %s", problem)
	}
	if len(problems) > 0 {
		return fmt.Errorf("%d thing(s) missing, see above", len(problems))
	}
	c.Screen.Line("")
	c.Screen.Line("%s", c.Outlook(found.cached, found.nodes != nil && found.nodes.cached))
	return nil
}

func (f facts) describe() []string {
	lines := []string{
		fmt.Sprintf("system  %s, %d CPUs", f.os, f.cpus),
		"go      " + f.goTool,
	}
	if f.disk > 0 {
		lines = append(lines, fmt.Sprintf("disk    %s free in %s", inGiB(f.disk), f.folder))
	}
	if f.memory > 0 {
		lines = append(lines, fmt.Sprintf("memory  %s available", inGiB(f.memory)))
	}
	if f.os != "linux" {
		lines = append(lines, "note    the lab is made for Linux. Here it was not tried, and if the demo is killed, its processes stay: use make demo-stop.")
	}
	return lines
}

// problems returns the unmet requirements, each with a remedy.
func (f facts) problems() []string {
	var all []string
	if f.os != "linux" && f.os != "darwin" {
		all = append(all, "Linux. "+f.os+" cannot run the lab. Remedy: use a Linux machine, or a virtual one.")
	}
	if f.goTool == "" {
		all = append(all, "the go command. Remedy: install Go from https://go.dev/dl and put it into PATH.")
	}
	if need := f.diskNeed(); f.disk > 0 && f.disk < need {
		all = append(all, fmt.Sprintf("disk: %s are needed in %s. Remedy: make room (`go clean -cache` may help), or set "+
			"GOCACHE, GOMODCACHE and XDG_CACHE_HOME to folders on a larger disk.", inGiB(need), f.folder))
	}
	if need := f.memoryNeed(); f.memory > 0 && f.memory < need {
		all = append(all, fmt.Sprintf("memory: %s are needed. Remedy: end other programs, or use a larger machine.", inGiB(need)))
	}
	if f.nodes != nil && f.nodes.missing != nil {
		all = append(all, f.nodes.missing.Error())
	}
	return all
}

func (f facts) diskNeed() uint64 {
	var need uint64 = firstDisk
	if f.cached {
		need = laterDisk
	}
	if f.nodes != nil {
		need += nodesDisk
	}
	if f.nodes != nil && !f.nodes.cached {
		need += nodesBuild
	}
	return need
}

func (f facts) memoryNeed() uint64 {
	if f.nodes != nil {
		return leastMemory + nodesMemory
	}
	return leastMemory
}

func (c Check) gatherFacts(ctx context.Context) (facts, error) {
	f := facts{os: runtime.GOOS, cpus: runtime.NumCPU(), memory: availableMemory()}
	cache, err := binaries.CacheDir()
	if err != nil {
		return facts{}, fmt.Errorf("find the lab's cache: %w", err)
	}
	f.cached = wereBuilt(cache, append(c.Built, "kubernetes-*/kube-scheduler", "kubevirt-*/virt-controller", "cdi-*/cdi-controller", "mcm-*/machine-controller-manager")...)
	if c.RealNodes {
		f.nodes = &realFacts{missing: host.Check(), cached: wereBuilt(cache, "kubelet-*/kubelet", "runc-*/runc", "node-*/virt-launcher", "debian-*/root", "images-*/kubevirt.tar", "guest-*/disk.qcow2")}
	}
	folders := []string{cache}
	if output, err := exec.CommandContext(ctx, "go", "env", "GOVERSION", "GOCACHE", "GOMODCACHE").Output(); err == nil {
		lines := strings.Split(strings.TrimSpace(string(output)), "\n")
		f.goTool = lines[0]
		folders = append(folders, lines[1:]...)
	}
	for _, folder := range folders {
		free, err := host.FreeDisk(folder)
		if err != nil {
			return facts{}, err
		}
		if f.folder == "" || free < f.disk {
			f.folder = folder
			f.disk = free
		}
	}
	return f, nil
}

// wereBuilt reports whether the cache holds files of all patterns, possibly of another version.
func wereBuilt(cache string, patterns ...string) bool {
	for _, pattern := range patterns {
		if found, err := filepath.Glob(filepath.Join(cache, pattern)); err != nil || len(found) == 0 {
			return false
		}
	}
	return true
}

// availableMemory returns the available memory, or zero if it is unknown.
func availableMemory() uint64 {
	file, err := os.Open("/proc/meminfo")
	if err != nil {
		return 0
	}
	defer file.Close() //nolint:errcheck // read-only
	return parseMemory(file)
}

// parseMemory reads MemAvailable from /proc/meminfo.
func parseMemory(r io.Reader) uint64 {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) >= 2 && fields[0] == "MemAvailable:" {
			kib, err := strconv.ParseUint(fields[1], 10, 64)
			if err != nil {
				return 0
			}
			return kib << 10
		}
	}
	return 0
}

func inGiB(bytes uint64) string {
	return fmt.Sprintf("%.1f GiB", float64(bytes)/gib)
}

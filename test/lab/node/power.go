// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// Kill ends a node as a loss of power does: all its processes at once. Its disk stays.
func (n *Nodes) Kill(ctx context.Context, name string) error {
	one, err := n.named(name)
	if err != nil {
		return err
	}
	return one.stop(ctx)
}

// Boot starts a node that was killed, with the disk that it had.
func (n *Nodes) Boot(ctx context.Context, name string) error {
	one, err := n.named(name)
	if err != nil {
		return err
	}
	// Its interface ends with its network namespace, which may not have ended yet.
	_ = n.ip(ctx, "link del "+one.hostDevice())
	if err := n.plug(ctx, one); err != nil {
		return err
	}
	if err := n.start(one); err != nil {
		return fmt.Errorf("start node %s: %w", name, err)
	}
	return nil
}

// KillProgram kills the processes of a node that run a program, and returns their number.
func (n *Nodes) KillProgram(name, program string) (killed int, err error) {
	if _, err := n.named(name); err != nil {
		return 0, err
	}
	processes, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return 0, fmt.Errorf("list processes: %w", err)
	}
	processes = slices.DeleteFunc(processes, func(dir string) bool { return !isIn(dir, n.options.Cgroup+name) })
	for _, dir := range running(processes, program) {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			return killed, fmt.Errorf("read process ID: %w", err)
		}
		err = syscall.Kill(pid, syscall.SIGKILL)
		if errors.Is(err, syscall.ESRCH) { // it has just ended
			continue
		}
		if err != nil {
			return killed, fmt.Errorf("kill %s (pid %d): %w", program, pid, err)
		}
		killed++
	}
	return killed, nil
}

// isIn reports whether a process, by its folder in /proc, is in a cgroup or below it.
func isIn(process, cgroup string) bool {
	groups, err := os.ReadFile(filepath.Join(process, "cgroup"))
	if err != nil { // it has just ended
		return false
	}
	for line := range strings.Lines(string(groups)) {
		if strings.Contains(strings.TrimSpace(line)+"/", "/"+cgroup+"/") {
			return true
		}
	}
	return false
}

// running returns those of the processes, by their folders in /proc, that run a program, without their children: between fork and exec, a child
// has the command line of its parent.
func running(processes []string, program string) (found []string) {
	for _, dir := range processes {
		if runs(dir, program) && !runs(parent(dir), program) {
			found = append(found, dir)
		}
	}
	return found
}

// runs reports whether a process, by its folder in /proc, runs a program.
func runs(process, program string) bool {
	arguments, err := os.ReadFile(filepath.Join(process, "cmdline"))
	if err != nil { // it has just ended
		return false
	}
	first, _, _ := strings.Cut(string(arguments), "\x00")
	return filepath.Base(first) == program
}

// parent returns the folder in /proc of a process' parent, or one that does not exist.
func parent(process string) string {
	status, err := os.ReadFile(filepath.Join(process, "status"))
	if err != nil { // it has just ended
		return filepath.Join(process, "ended")
	}
	_, field, _ := strings.Cut(string(status), "\nPPid:")
	pid, _, _ := strings.Cut(field, "\n")
	return filepath.Join(filepath.Dir(process), strings.TrimSpace(pid))
}

func (n *Nodes) named(name string) (*node, error) {
	for _, one := range n.nodes {
		if one.name == name {
			return one, nil
		}
	}
	return nil, fmt.Errorf("%s is not one of the nodes", name)
}

// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
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
	for _, dir := range processes {
		if !isIn(dir, n.options.Cgroup+name) || !runs(dir, program) {
			continue
		}
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

// runs reports whether a process, by its folder in /proc, runs a program.
func runs(process, program string) bool {
	arguments, err := os.ReadFile(filepath.Join(process, "cmdline"))
	if err != nil { // it has just ended
		return false
	}
	first, _, _ := strings.Cut(string(arguments), "\x00")
	return filepath.Base(first) == program
}

func (n *Nodes) named(name string) (*node, error) {
	for _, one := range n.nodes {
		if one.name == name {
			return one, nil
		}
	}
	return nil, fmt.Errorf("%s is not one of the nodes", name)
}

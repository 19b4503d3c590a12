// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package process_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/process"
)

func shell(name, script string) process.Spec {
	return process.Spec{Name: name, Path: "/bin/sh", Args: []string{"-c", script}}
}

func newGroup(t *testing.T) *process.Group {
	t.Helper()
	g := process.NewGroup(t.TempDir())
	t.Cleanup(func() { require.NoError(t, g.Stop(context.WithoutCancel(t.Context()))) })
	return g
}

func TestErrQuotesTheLog(t *testing.T) {
	t.Parallel()
	p, err := newGroup(t).Start(shell("talker", "for i in 1 2 3; do echo line $i; done; exit 7"))
	require.NoError(t, err)
	<-p.Exited()
	require.ErrorContains(t, p.Err(), "exit status 7")
	require.ErrorContains(t, p.Err(), p.LogFile())
	require.ErrorContains(t, p.Err(), "line 3")
	require.NoError(t, p.Stop(t.Context()), "stopping an exited process is not an error")
}

func TestStop(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		reason string
		script string
		kill   bool
	}{
		"orderly":  {reason: "SIGTERM ends an ordinary process", script: "exec sleep 60"},
		"stubborn": {reason: "a process that ignores SIGTERM is killed when the context ends", script: "trap '' TERM; while :; do sleep 1; done"},
		"killed":   {reason: "Kill does not wait for an orderly end", script: "trap '' TERM; while :; do sleep 1; done", kill: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := shell(name, test.script)
			s.Kill = test.kill
			p, err := newGroup(t).Start(s)
			require.NoError(t, err)
			require.NoError(t, p.Err(), "the process is running")
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			require.NoError(t, p.Stop(ctx), test.reason)
			require.ErrorIs(t, syscall.Kill(p.PID(), 0), syscall.ESRCH, test.reason)
		})
	}
}

func TestSecondProcessOfTheSameNameHasItsOwnLog(t *testing.T) {
	t.Parallel()
	g := newGroup(t)
	first, err := g.Start(shell("twin", "true"))
	require.NoError(t, err)
	second, err := g.Start(shell("twin", "true"))
	require.NoError(t, err)
	require.NotEqual(t, first.LogFile(), second.LogFile())
}

// TestChildrenDieWithTheirOwner re-runs this test binary as the owner of two children, kills it
// with SIGKILL, and waits until the children are gone.
func TestChildrenDieWithTheirOwner(t *testing.T) {
	t.Parallel()
	const owner = "LAB_TEST_OWNER_LOG_DIR"
	if dir := os.Getenv(owner); dir != "" {
		ownTwoChildren(t, dir)
		return
	}
	command := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestChildrenDieWithTheirOwner$")
	command.Env = append(os.Environ(), owner+"="+t.TempDir())
	output, err := command.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, command.Start())
	line, err := bufio.NewReader(output).ReadString('\n')
	require.NoError(t, err)
	require.NoError(t, command.Process.Signal(syscall.SIGKILL))
	require.Error(t, command.Wait())
	for _, field := range strings.Fields(line) {
		pid, err := strconv.Atoi(field)
		require.NoError(t, err)
		require.Eventually(t, func() bool { return gone(pid) }, time.Minute, 10*time.Millisecond)
	}
}

func ownTwoChildren(t *testing.T, dir string) {
	t.Helper()
	g := process.NewGroup(dir)
	a, err := g.Start(shell("a", "exec sleep 60"))
	require.NoError(t, err)
	b, err := g.Start(shell("b", "exec sleep 60"))
	require.NoError(t, err)
	fmt.Println(a.PID(), b.PID()) //nolint:forbidigo // read by the parent
	select {}
}

// gone also returns true for a zombie: in a container orphans may not be reaped.
func gone(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || strings.Contains(string(stat), ") Z ")
}

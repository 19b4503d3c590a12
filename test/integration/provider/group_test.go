// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// group is a process group that ends with the test, or with the test's process for any reason. The
// suite starts processes that start others, and leaves some of them behind when it fails.
type group struct {
	leader *exec.Cmd
	pipe   io.Closer
}

// endGroup waits for the end of its input, a pipe that only the test holds open, and kills its
// process group, including itself.
const endGroup = `read -r _; kill -KILL 0`

func startGroup(t *testing.T) *group {
	t.Helper()

	// The test's context ends before its cleanup: the leader would die without killing the others.
	leader := exec.CommandContext(context.WithoutCancel(t.Context()), "/bin/sh", "-c", endGroup)
	leader.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	pipe, err := leader.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, leader.Start())

	g := &group{leader: leader, pipe: pipe}
	t.Cleanup(func() { g.end() })

	return g
}

func (g *group) end() {
	_ = g.pipe.Close()  // The other end reports no errors.
	_ = g.leader.Wait() // It kills itself too.
}

// run runs a command in the group, and requires that it succeeds.
func (g *group) run(t *testing.T, command *exec.Cmd) {
	t.Helper()

	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pgid: g.leader.Process.Pid}
	require.NoError(t, command.Run())
}

// listGroup replaces `ps -e -o pid,args`. The suite kills processes by name; with
// this it sees only its own.
const listGroup = `#!/bin/sh
group=$(%[1]s -o pgid= -p $$)
exec %[1]s -e -o pgid= -o pid= -o args= | awk -v group="$group" '$1 == group { $1 = ""; print }'
`

// writeProcessList writes a ps that lists only the processes of its own group, and
// that the suite finds first.
func (w *workspace) writeProcessList(t *testing.T) {
	t.Helper()

	ps, err := exec.LookPath("ps")
	require.NoError(t, err)
	w.write(t, binDir+"/ps", fmt.Sprintf(listGroup, ps))
}

// command returns the suite: this program, started in the workspace with the
// suite's environment variables.
func (w *workspace) command(t *testing.T) *exec.Cmd {
	t.Helper()

	program, err := os.Executable()
	require.NoError(t, err)

	suite := exec.CommandContext(t.Context(), program, "-test.run=^"+t.Name()+"$", "-test.timeout=0", "-ginkgo.v", "-ginkgo.no-color")
	suite.Dir = w.path(workingDir)
	suite.Stdout, suite.Stderr = os.Stdout, os.Stderr
	suite.Env = append(os.Environ(),
		"PATH="+w.path(binDir)+string(os.PathListSeparator)+os.Getenv("PATH"),
		"MAKEFLAGS=", // the settings of the tests' own `make` are not for the suite
		"CONTROL_KUBECONFIG="+w.lab.Control.AdminKubeconfig,
		"TARGET_KUBECONFIG="+w.lab.Control.AdminKubeconfig,
		"CONTROL_CLUSTER_NAMESPACE="+w.shoot.Namespace,
		"TARGET_CLUSTER_NAME="+w.shoot.Namespace,
		"MACHINECLASS_V1="+w.path("test-mc-v1.yaml"),
		"MACHINECLASS_V2="+w.path("test-mc-v2.yaml"),
		providerKubeconfig+"="+w.lab.Provider.AdminKubeconfig,
	)

	return suite
}

// startBystander starts a process that the suite would kill if it saw it: a process of another run
// of the suite. It ends with the test. The channel is closed if it exits earlier.
func startBystander(t *testing.T) <-chan struct{} {
	t.Helper()

	bystander := exec.CommandContext(context.WithoutCancel(t.Context()), "make", "--directory=../../..", "--eval=start: ; @cat", "start")
	bystander.Env = append(os.Environ(), "MAKEFLAGS=")
	pipe, err := bystander.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, bystander.Start())

	ended := make(chan struct{})

	go func() {
		defer close(ended)

		_ = bystander.Wait() // The exit reason is irrelevant.
	}()

	t.Cleanup(func() {
		require.NoError(t, pipe.Close())
		<-ended
	})

	return ended
}

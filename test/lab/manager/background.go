// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/process"
)

const pollEvery = 200 * time.Millisecond

// up starts `run` in the background, shows its progress until the lab is
// ready, and leaves it running.
func up(ctx context.Context, r request, out io.Writer) error {
	s, err := newStore(r.name)
	if err != nil {
		return err
	}
	if st, err := s.load(); err == nil {
		fmt.Fprintf(out, "lab %q is already running (pid %d)\n", st.Name, st.PID)
		return join(ctx, s, st, out)
	}
	log, err := os.Create(s.logFile())
	if err != nil {
		return fmt.Errorf("create log: %w", err)
	}
	defer log.Close() //nolint:errcheck // written by the child process
	child, err := detach(r, log)
	if err != nil {
		return err
	}
	exited := make(chan error, 1)
	go func() { exited <- child.Wait() }()
	if err := follow(ctx, s, exited, out); err != nil {
		_ = child.Process.Signal(syscall.SIGTERM) // if it has already ended, the next line returns at once
		<-exited
		if ctx.Err() != nil { // the log would not explain an interrupted start
			err = errors.Join(err, s.clean())
		}
		return err
	}
	return nil
}

// join returns when a lab is ready that another process has started.
func join(ctx context.Context, s store, st *state, out io.Writer) error {
	if st.Ready {
		describe(out, st)
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		ended <- wait.PollUntilContextCancel(ctx, pollEvery, true, func(context.Context) (bool, error) {
			_, err := s.load()
			return false, err
		})
	}()
	return follow(ctx, s, ended, out)
}

// detach starts `run` in its own session, so that a ctrl-C in this terminal does not reach it.
func detach(r request, log *os.File) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find the lab's own program: %w", err)
	}
	child := exec.Command(self, r.arguments()...) //nolint:noctx // must outlive this command; runs our own program
	child.Stdout = log
	child.Stderr = log
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := child.Start(); err != nil {
		return nil, fmt.Errorf("start the lab: %w", err)
	}
	return child, nil
}

// follow copies the lab's progress to out until the lab is ready, the child exits, or ctx is done.
// It puts the child's exit error back into exited so that the caller can still receive it.
func follow(ctx context.Context, s store, exited chan error, out io.Writer) error {
	log, err := os.Open(s.logFile())
	if err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	defer log.Close() //nolint:errcheck // read-only
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for {
		if _, err := io.Copy(out, log); err != nil {
			return fmt.Errorf("show progress: %w", err)
		}
		if st, err := s.load(); err == nil && st.Ready {
			_, err = io.Copy(out, log)
			return err
		}
		select {
		case <-ticker.C:
		case end := <-exited:
			exited <- end
			return fmt.Errorf("the lab ended while it started (%w); log %s ends with:\n%s", end, s.logFile(), process.Tail(s.logFile(), 20))
		case <-ctx.Done():
			return fmt.Errorf("start of the lab: %w", ctx.Err())
		}
	}
}

// down stops a lab and waits until all its processes and files are gone.
func down(ctx context.Context, r request, out io.Writer) error {
	s, err := newStore(r.name)
	if err != nil {
		return err
	}
	st, err := s.load()
	if errors.Is(err, errNotRunning) {
		fmt.Fprintf(out, "lab %q is not running\n", r.name)
		return s.clean()
	}
	if err != nil {
		return err
	}
	if err := syscall.Kill(st.PID, syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop lab %q (pid %d): %w", st.Name, st.PID, err)
	}
	err = wait.PollUntilContextTimeout(ctx, pollEvery, 2*stopTimeout, true, func(context.Context) (bool, error) {
		_, err := s.load()
		return errors.Is(err, errNotRunning), nil
	})
	if err != nil {
		return fmt.Errorf("wait for lab %q (pid %d) to end: %w", st.Name, st.PID, err)
	}
	fmt.Fprintf(out, "lab %q is down\n", st.Name)
	return s.clean()
}

// status prints the state of the lab and its processes.
func status(_ context.Context, r request, out io.Writer) error {
	s, err := newStore(r.name)
	if err != nil {
		return err
	}
	st, err := s.load()
	if err != nil {
		if r.output != "json" {
			fmt.Fprintln(out, err)
		}
		return err
	}
	if r.output == "json" {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(st)
	}
	describe(out, st)
	for _, p := range st.Processes {
		word := "running"
		if !p.Running {
			word = "ENDED"
		}
		fmt.Fprintf(out, "  %-8s %7d  %-36s %s\n", word, p.PID, p.Name, p.Log)
	}
	return nil
}

// describe prints the kubeconfigs, logs and commands needed to use a lab.
func describe(out io.Writer, st *state) {
	if !st.Ready {
		fmt.Fprintf(out, "lab %q is starting (pid %d)\n", st.Name, st.PID)
		return
	}
	fmt.Fprintf(out, "lab %q is ready (pid %d, started %s)\n", st.Name, st.PID, st.StartedAt.Local().Format(time.TimeOnly))
	fmt.Fprintf(out, "  provider cluster          export KUBECONFIG=%s\n", st.ProviderKubeconfig)
	fmt.Fprintf(out, "  control, target cluster   export KUBECONFIG=%s\n", st.ControlKubeconfig)
	fmt.Fprintf(out, "  logs                      %s\n", st.LogDir)
	fmt.Fprintf(out, "try:\n  %s --kubeconfig %s get nodes,storageclasses\n", st.Kubectl, st.ProviderKubeconfig)
	if st.Shoot != nil {
		fmt.Fprintf(out, "  %s --kubeconfig %s -n %s get machines\n", st.Kubectl, st.ControlKubeconfig, st.Shoot.Namespace)
		fmt.Fprintf(out, "  %s --kubeconfig %s -n %s get virtualmachines\n", st.Kubectl, st.ProviderKubeconfig, st.Shoot.ProviderNamespace)
	}
	if st.Shell != "" {
		fmt.Fprintf(out, "  source %s   # control, target, provider, mcm-kubevirt\n", st.Shell)
		fmt.Fprintf(out, "  go run ./test/lab restart --name %s   # the sidecar, after a build\n", st.Name)
	}
	fmt.Fprintf(out, "  go run ./test/lab down --name %s\n", st.Name)
}

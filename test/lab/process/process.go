// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package process runs the lab's child processes so that none of them outlives the lab.
//
// The control planes and the environment start every real component through a Group. On Linux the
// kernel kills each child when the lab's own process dies for any reason. The package has no
// knowledge of Kubernetes.
package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// Spec describes a process to run.
type Spec struct {
	Name string   // also the name of the log file
	Path string   // the executable
	Args []string // without the executable
	Env  []string // added to the lab's own environment
	// Stdin is the child's standard input; nil means none. The caller closes it.
	Stdin *os.File
	// Kill ends the process with SIGKILL instead of SIGTERM, for programs that take seconds for an
	// orderly shutdown that is not needed.
	Kill bool
}

// Process is a child process, running or exited.
type Process struct {
	spec    Spec
	logFile string
	command *exec.Cmd
	exited  chan struct{}
	err     error // set before exited is closed
}

// Name returns the name from the Spec.
func (p *Process) Name() string { return p.spec.Name }

// PID returns the child's process ID.
func (p *Process) PID() int { return p.command.Process.Pid }

// LogFile returns the path of the file with the child's output.
func (p *Process) LogFile() string { return p.logFile }

// Exited returns a channel that is closed when the child has exited.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Err describes how the child ended, with the end of its output and the name of its log. It is
// nil while the child runs.
func (p *Process) Err() error {
	select {
	case <-p.exited:
	default:
		return nil
	}
	cause := p.err
	if cause == nil {
		cause = errors.New("exit status 0")
	}
	return fmt.Errorf("%s ended: %w; log %s ends with:\n%s", p.spec.Name, cause, p.logFile, Tail(p.logFile, lastLines))
}

// Failure returns nil if the child has ended successfully, and otherwise how it has ended. It is nil
// while the child runs.
func (p *Process) Failure() error {
	if ended := p.Err(); ended == nil || p.err == nil {
		return nil
	}
	return p.Err()
}

// Stop ends the child and waits for it. If ctx is done first, it kills the child.
func (p *Process) Stop(ctx context.Context) error {
	signal := syscall.SIGTERM
	if p.spec.Kill {
		signal = syscall.SIGKILL
	}
	if err := p.signal(signal); err != nil {
		return err
	}
	select {
	case <-p.exited:
		return nil
	case <-ctx.Done():
	}
	if err := p.signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-p.exited
	return nil
}

// Signal sends a signal to the child, for example SIGSTOP to simulate a hung component.
func (p *Process) Signal(signal os.Signal) error { return p.signal(signal) }

func (p *Process) signal(signal os.Signal) error {
	if err := p.command.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal %s (pid %d): %w", p.spec.Name, p.PID(), err)
	}
	return nil
}

func (p *Process) wait(output *os.File) {
	p.err = p.command.Wait()
	_ = output.Close() // only the child writes to it
	close(p.exited)
}

const (
	lastLines = 12
	tailBytes = 16 << 10
)

// Tail returns the last lines of a file, or the error of reading it.
func Tail(file string, lines int) string {
	data, err := readEnd(file)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	if len(all) > lines {
		all = all[len(all)-lines:]
	}
	return "  " + strings.Join(all, "\n  ")
}

func readEnd(file string) ([]byte, error) {
	f, err := os.Open(filepath.Clean(file))
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	defer f.Close() //nolint:errcheck // read-only
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("stat log: %w", err)
	}
	data := make([]byte, min(info.Size(), tailBytes))
	n, err := f.ReadAt(data, info.Size()-int64(len(data)))
	if err != nil && n < len(data) {
		return nil, fmt.Errorf("read log: %w", err)
	}
	return data, nil
}

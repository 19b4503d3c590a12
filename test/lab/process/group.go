// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
)

// Group starts processes and stops them together.
type Group struct {
	logDir string
	forks  chan func()
	closed sync.Once

	mu        sync.Mutex
	processes []*Process
	used      map[string]int // number of uses of each log name
}

// NewGroup returns a Group whose processes log into the folder logDir. Callers must call Stop.
func NewGroup(logDir string) *Group {
	g := &Group{logDir: logDir, forks: make(chan func()), used: map[string]int{}}
	go g.fork()
	return g
}

// fork runs every start on one operating system thread. The kernel sends the parent-death signal
// when the forking thread exits, not the process, so that thread must live as long as the group. It
// is never unlocked: it exits with the goroutine, which kills any child that Stop has left.
func (g *Group) fork() {
	runtime.LockOSThread()
	for start := range g.forks {
		start()
	}
}

// Start runs a process. Its output goes to <logDir>/<name>.log, with a number added if
// the name is already in use.
func (g *Group) Start(s Spec) (*Process, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := &Process{spec: s, logFile: g.logFile(s.Name), exited: make(chan struct{})}
	output, err := os.OpenFile(p.logFile, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("create log of %s: %w", s.Name, err)
	}
	// Not CommandContext: Stop ends the processes, in the order the owner chooses.
	p.command = exec.Command(s.Path, s.Args...) //nolint:noctx // see above; the lab built the executable
	p.command.Env = append(os.Environ(), s.Env...)
	if s.Stdin != nil { // a nil *os.File would not be a nil io.Reader
		p.command.Stdin = s.Stdin
	}
	p.command.Stdout = output
	p.command.Stderr = output
	p.command.SysProcAttr = BoundToParent()
	started := make(chan error)
	g.forks <- func() { started <- p.command.Start() }
	if err := <-started; err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", s.Name, err), output.Close())
	}
	g.processes = append(g.processes, p)
	go p.wait(output)
	return p, nil
}

func (g *Group) logFile(name string) string {
	g.used[name]++
	if n := g.used[name]; n > 1 {
		name = fmt.Sprintf("%s-%d", name, n)
	}
	return filepath.Join(g.logDir, name+".log")
}

// Processes returns the processes started so far, oldest first.
func (g *Group) Processes() []*Process {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.processes)
}

// Stop ends all processes, youngest first, and waits for them. It kills the remaining ones when ctx
// is done. The group cannot be used afterwards.
func (g *Group) Stop(ctx context.Context) error {
	var failed error
	for _, p := range slices.Backward(g.Processes()) {
		failed = errors.Join(failed, p.Stop(ctx))
	}
	g.closed.Do(func() { close(g.forks) })
	return failed
}

// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package suite is one run of the integration tests: a lab, the programs under test, and the
// checks that need the records of all tests.
//
// The command test/integration starts a suite and runs the topic packages concurrently; each of
// their processes joins it. A process that finds no suite to join starts its own. Only package
// harness and that command call this package, apart from the names of nodes and secrets. It must
// not know the tests.
package suite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/environment"
)

// Variable is the environment variable with the folder of the suite to join.
const Variable = "INTEGRATION_SUITE"

// Suite is a lab with the programs under test.
type Suite struct {
	Lab *environment.Lab

	// dir contains the programs, the lab's socket and the records. It is not below the lab's
	// folder, since the path of a socket must be short, and only its owner may read it.
	dir     string
	objects *objectLog // nil in a process that joined
}

// Option changes the lab that a suite starts.
type Option func(*environment.Options)

// RealNodes replaces the simulated provider nodes by two real ones. The process must have called node.Isolate.
func RealNodes(o *environment.Options) {
	o.RealNodes = 2 //nolint:mnd // one to migrate from, one to migrate to
	o.Nodes = nil
}

// BareNodes builds less for the real nodes, for tests of machines from container images alone.
func BareNodes(o *environment.Options) { o.BareNodes = true }

// Open joins the suite that the environment names, and otherwise starts one.
func Open(ctx context.Context, progress io.Writer, options ...Option) (*Suite, error) {
	if dir := os.Getenv(Variable); dir != "" {
		return join(ctx, dir)
	}

	return Start(ctx, progress, options...)
}

// Start builds the programs, starts a lab, and begins to record its objects. Stop ends the suite.
func Start(ctx context.Context, progress io.Writer, options ...Option) (*Suite, error) {
	dir, err := os.MkdirTemp("", "integration-")
	if err != nil {
		return nil, fmt.Errorf("create folder: %w", err)
	}

	s := &Suite{dir: dir}
	if err := s.start(ctx, progress, options); err != nil {
		return nil, errors.Join(err, s.Stop(ctx))
	}

	return s, nil
}

func (s *Suite) start(ctx context.Context, progress io.Writer, options []Option) (err error) {
	if err := s.makeFolders(); err != nil {
		return err
	}

	build := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-ldflags=-s -w", "-o", s.dir, module+"/cmd/...")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build the commands: %w\n%s", err, out)
	}

	if s.Lab, err = environment.Start(ctx, labOptions(progress, options)); err != nil {
		return err
	}

	// A process that also runs tests redirects it later.
	if err := LogToFile(filepath.Join(s.Lab.LogDir, "suite.log"), 0); err != nil {
		return err
	}

	s.objects, err = recordObjects(ctx, s.Lab)

	return err
}

// labOptions returns those of the suite's lab.
func labOptions(progress io.Writer, options []Option) environment.Options {
	wanted := environment.Options{Progress: progress, Nodes: nodes(), SpendMemory: true, Monitoring: true}
	for _, option := range options {
		option(&wanted)
	}

	return wanted
}

// Prepare builds what Start runs in the lab, for a process that has no network when it starts the suite.
func Prepare(ctx context.Context, progress io.Writer, options ...Option) error {
	return environment.Prepare(ctx, labOptions(progress, options))
}

func (s *Suite) makeFolders() error {
	if err := os.Mkdir(s.records(), 0o700); err != nil {
		return fmt.Errorf("create folder: %w", err)
	}

	return nil
}

const module = "github.com/gardener/machine-controller-manager-provider-kubevirt"

func join(ctx context.Context, dir string) (*Suite, error) {
	lab, err := environment.Attach(ctx, socketIn(dir))
	if err != nil {
		return nil, fmt.Errorf("join the suite in %s: %w", dir, err)
	}

	return &Suite{Lab: lab, dir: dir}, nil
}

// Share lets other processes join the suite, and returns the entry for their environment.
func (s *Suite) Share(ctx context.Context) (string, error) {
	return Variable + "=" + s.dir, s.Lab.Share(ctx, socketIn(s.dir))
}

func socketIn(dir string) string { return filepath.Join(dir, "lab.sock") }

// Sidecar returns the path of the built machine-controller.
func (s *Suite) Sidecar() string { return filepath.Join(s.dir, "machine-controller") }

// RemoteDriver returns the path of the built mcm-kubevirt.
func (s *Suite) RemoteDriver() string { return filepath.Join(s.dir, "mcm-kubevirt") }

// Joined reports whether another process owns the suite, and checks its records.
func (s *Suite) Joined() bool { return s.Lab.Ended() != nil }

// Stop ends the processes that this process started, and removes the files of a suite that it
// owns, except the logs if the lab's KeepLogs is set. It may be called more than once.
func (s *Suite) Stop(ctx context.Context) error {
	if s.Lab == nil {
		return os.RemoveAll(s.dir)
	}

	if s.Joined() {
		return s.Lab.Stop(ctx)
	}

	s.objects.stop()

	return errors.Join(s.Lab.Stop(context.WithoutCancel(ctx)), os.RemoveAll(s.dir))
}

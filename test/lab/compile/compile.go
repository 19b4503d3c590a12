// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package compile builds programs of this repository, and reports the progress of the go command.
//
// The command lab and the demo call it before there is anything else to show. It imports almost nothing, so that its callers
// are compiled within seconds. It must not depend on the programs.
package compile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/screen"
)

// Flags returns the flags of all builds, which the Makefile repeats, with CGO_ENABLED=0: with them, a lab and the driver
// share the packages that both import. The linker drops debug information (-s -w), and a compiler that writes none is a
// tenth faster.
func Flags() []string { return []string{"-trimpath", "-buildvcs=false", "-gcflags=all=-dwarf=false"} }

// Program is what to build.
type Program struct {
	Name     string // for progress lines
	Root     string // folder of the repository
	Module   string // folder of the Go module below Root; empty means Root
	Packages string // such as ./cmd/...
	Output   string // file, or a folder with a slash at its end; relative to Root
}

// Build builds a program. It writes a line at once and every ten seconds, and one at the end.
func Build(ctx context.Context, progress io.Writer, p Program) (err error) {
	var count counter
	output := p.Output
	if !filepath.IsAbs(output) {
		output = p.Root + "/" + output // filepath.Join would remove the slash of a folder
	}
	arguments := slices.Concat([]string{"build", "-v"}, Flags(), []string{"-ldflags=-s -w", "-o", output, p.Packages})
	command := exec.CommandContext(ctx, "go", arguments...)
	command.Dir = filepath.Join(p.Root, p.Module)
	command.Stdout = &count
	command.Stderr = &count
	remove, err := cancellable(command, filepath.Join(p.Root, "bin"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	begun := time.Now()
	stop := screen.Report(progress, func(elapsed time.Duration) string {
		return fmt.Sprintf("build %s, %s", p.Name, count.describe(elapsed))
	})
	failed := command.Run()
	stop()
	if ctx.Err() != nil {
		return ctx.Err() // the interruption caused the failure
	}
	if failed != nil {
		return fmt.Errorf("go build %s: %w\n%s", p.Packages, failed, count.tail.String())
	}
	fmt.Fprintf(progress, "build %s done, %s\n", p.Name, count.describe(time.Since(begun)))
	return nil
}

// cancellable makes a go command use a new folder below parent for temporary files, and makes its cancellation kill its
// compiler processes too. An interrupted go command leaves both behind.
func cancellable(command *exec.Cmd, parent string) (remove func() error, err error) {
	if err := os.MkdirAll(parent, 0o750); err != nil {
		return nil, fmt.Errorf("create the folder for programs: %w", err)
	}
	if err := removeAbandoned(parent); err != nil {
		return nil, err
	}
	work, err := os.MkdirTemp(parent, workPrefix)
	if err != nil {
		return nil, fmt.Errorf("create the folder that go works in: %w", err)
	}
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOTMPDIR="+work)
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
	return func() error { return os.RemoveAll(work) }, nil
}

const workPrefix = ".go-build-"

// removeAbandoned removes folders of builds that were killed. No build takes a day.
func removeAbandoned(parent string) error {
	folders, err := filepath.Glob(filepath.Join(parent, workPrefix+"*"))
	for _, folder := range folders {
		if info, failed := os.Stat(folder); failed == nil && time.Since(info.ModTime()) > 24*time.Hour {
			err = errors.Join(err, os.RemoveAll(folder))
		}
	}
	return err
}

// counter counts the output lines of the go command: modules downloaded and packages compiled.
type counter struct {
	downloaded, compiled atomic.Int64
	tail                 screen.Tail
}

// Write implements io.Writer.
func (c *counter) Write(data []byte) (int, error) {
	for line := range bytes.Lines(data) {
		if bytes.HasPrefix(line, []byte("go: downloading ")) {
			c.downloaded.Add(1)
		} else {
			c.compiled.Add(1)
		}
	}
	return c.tail.Write(data)
}

func (c *counter) describe(elapsed time.Duration) string {
	return fmt.Sprintf("%s, %d modules downloaded, %d packages compiled", screen.Clock(elapsed), c.downloaded.Load(), c.compiled.Load())
}

// module is the line in go.mod that identifies the repository.
const module = "module github.com/gardener/machine-controller-manager-provider-kubevirt\n"

// Root searches for the folder of the repository upwards from the working folder.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find working folder: %w", err)
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		data, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && strings.HasPrefix(string(data), module) {
			return dir, nil
		}
	}
	return "", errors.New("find the repository: run the command inside it")
}

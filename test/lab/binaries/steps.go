// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package binaries

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/compile"
)

// step produces one or more files of a set.
type step struct {
	number   int // position in the full list, for progress lines
	name     string
	module   string // folder of the Go module
	target   string // folder of the finished files
	outputs  []string
	estimate time.Duration // cold, on two cores, downloads included
	produce  producer
}

func (s step) done() bool {
	return !slices.ContainsFunc(s.outputs, func(name string) bool {
		_, err := os.Stat(filepath.Join(s.target, name))
		return err != nil
	})
}

// run produces the files in a temporary folder next to their target and then renames them into
// place, so that existing files are always complete.
func (s step) run(ctx context.Context) (err error) {
	temporary := filepath.Join(s.target, ".building") // one is enough: the caller holds the build lock
	if err := os.RemoveAll(temporary); err != nil {   // left by a killed build
		return fmt.Errorf("remove old folder: %w", err)
	}
	if err := os.MkdirAll(temporary, 0o750); err != nil {
		return fmt.Errorf("create folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temporary)) }()
	if err := s.produce(ctx, s, temporary); err != nil {
		return err
	}
	for _, name := range s.outputs {
		if err := replace(filepath.Join(temporary, name), filepath.Join(s.target, name)); err != nil {
			return err
		}
	}
	return nil
}

func replace(from, to string) error {
	if err := os.RemoveAll(to); err != nil { // rename does not replace a folder
		return fmt.Errorf("remove old file: %w", err)
	}
	if err := os.Rename(from, to); err != nil {
		return fmt.Errorf("put file into place: %w", err)
	}
	return nil
}

// compiled builds one package for each of the step's outputs.
func compiled(ldflags string, packages ...string) producer {
	return func(ctx context.Context, s step, into string) error {
		for i, name := range s.outputs {
			if err := goBuild(ctx, s.module, ldflags, filepath.Join(into, name), packages[i]); err != nil {
				return err
			}
		}
		return nil
	}
}

// printed builds a package, runs it once and stores its output.
func printed(pkg string) producer {
	return func(ctx context.Context, s step, into string) error {
		program := filepath.Join(into, "printer")
		if err := goBuild(ctx, s.module, ldflags, program, pkg); err != nil {
			return err
		}
		output, err := runCommand(exec.CommandContext(ctx, program))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(into, s.outputs[0]), output, 0o600); err != nil {
			return fmt.Errorf("write manifests: %w", err)
		}
		return nil
	}
}

// copied copies a folder of a module that the step's own module requires.
func copied(module, folder string) producer {
	return func(ctx context.Context, s step, into string) error {
		root, err := moduleFolder(ctx, s.module, module)
		if err != nil {
			return err
		}
		from := os.DirFS(filepath.Join(root, folder))
		if err := os.CopyFS(filepath.Join(into, s.outputs[0]), from); err != nil {
			return fmt.Errorf("copy %s of %s: %w", folder, module, err)
		}
		return nil
	}
}

// moduleFolder returns the folder of a module that another one requires, which is in a folder itself.
func moduleFolder(ctx context.Context, from, module string) (string, error) {
	output, err := runCommand(goCommand(ctx, from, "list", "-mod=readonly", "-m", "-f", "{{.Dir}}", module))
	return strings.TrimSpace(string(output)), err
}

// both combines two producers into one step; the second produces the last output.
func both(first, last producer) producer {
	return func(ctx context.Context, s step, into string) error {
		head := s
		tail := s
		head.outputs = s.outputs[:len(s.outputs)-1]
		tail.outputs = s.outputs[len(s.outputs)-1:]
		if err := first(ctx, head, into); err != nil {
			return err
		}
		return last(ctx, tail, into)
	}
}

func goBuild(ctx context.Context, module, ldflags, output, pkg string) error {
	return goBuildWith(ctx, module, nil, output, []string{pkg}, "-ldflags="+ldflags)
}

// goBuildWith builds a package, or its files, with more variables of the environment and more flags.
func goBuildWith(ctx context.Context, module string, environment []string, output string, pkg []string, flags ...string) error {
	arguments := slices.Concat([]string{"build", "-mod=readonly"}, compile.Flags(), flags, []string{"-o", output}, pkg)
	command := goCommand(ctx, module, arguments...)
	command.Env = append(command.Env, environment...)
	command.Env = append(command.Env, "GOTMPDIR="+filepath.Dir(output)) // removed with the step
	_, err := runCommand(command)
	return err
}

// goCommand keeps the caller's Go environment (proxy, caches, toolchain) except for settings that
// would change the result.
func goCommand(ctx context.Context, module string, arguments ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, "go", arguments...)
	command.Dir = module
	command.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=", "CGO_ENABLED=0", "PWD="+module)
	// An interrupted go command leaves its compiler processes behind.
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
	return command
}

func runCommand(command *exec.Cmd) ([]byte, error) {
	var stderr bytes.Buffer
	command.Stderr = &stderr
	output, err := command.Output()
	if err != nil {
		const enough = 4000
		text := strings.TrimSpace(stderr.String())
		return nil, fmt.Errorf("%s: %w: %s", strings.Join(command.Args[:min(2, len(command.Args))], " "), err,
			text[max(0, len(text)-enough):])
	}
	return output, nil
}

// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// program is a program of the image, for one architecture.
type program struct {
	name, architecture string
	data               []byte
	build              *buildinfo.BuildInfo
}

// checkPrograms returns the programs, all of which must be static programs of the release.
func checkPrograms(ctx context.Context, r release) ([]program, error) {
	var (
		programs []program
		errs     []error
	)

	for _, architecture := range r.architectures {
		for _, name := range r.programs {
			p, err := checkProgram(ctx, name, architecture, r)
			if err != nil {
				errs = append(errs, fmt.Errorf("linux/%s: %s: %w", architecture, name, err))
			}

			programs = append(programs, p)
		}
	}

	return programs, errors.Join(errs...)
}

func checkProgram(ctx context.Context, name, architecture string, r release) (program, error) {
	path, err := filepath.Abs(filepath.Join(r.binaries, "linux-"+architecture, name))
	if err != nil {
		return program{}, fmt.Errorf("find program: %w", err)
	}

	data, err := os.ReadFile(path) //nolint:gosec // The folder is given on the command line.
	if err != nil {
		return program{}, fmt.Errorf("read program: %w", err)
	}

	build, err := buildinfo.Read(bytes.NewReader(data))
	if err != nil {
		return program{}, fmt.Errorf("read how it was built: %w", err)
	}

	p := program{name: name, architecture: architecture, data: data, build: build}
	if err := errors.Join(checkBuild(p), checkVersion(data, r)); err != nil || runtime.GOOS+"/"+runtime.GOARCH != "linux/"+architecture {
		return p, err
	}

	return p, checkRun(ctx, path, r)
}

// checkBuild checks the build information that the go command embedded in the program. Without a
// base, the image has no loader and no libraries, so the program must be static.
func checkBuild(p program) error {
	var errs []error

	if !strings.HasSuffix(p.build.Path, "/cmd/"+p.name) {
		errs = append(errs, fmt.Errorf("it is another program: %s", p.build.Path))
	}

	var settings []string
	for _, setting := range p.build.Settings {
		settings = append(settings, setting.Key+"="+setting.Value)
	}

	for _, want := range []string{"CGO_ENABLED=0", "GOOS=linux", "GOARCH=" + p.architecture, "-buildmode=exe", "-trimpath=true"} {
		if !slices.Contains(settings, want) {
			errs = append(errs, fmt.Errorf("it was not built with %s", want))
		}
	}

	return errors.Join(errs...)
}

// checkVersion searches the program for the values set by the linker, since a program for another
// architecture cannot be run.
func checkVersion(data []byte, r release) error {
	for _, text := range []string{r.version, r.revision} {
		if !bytes.Contains(data, []byte(text)) {
			return fmt.Errorf("it does not contain %s: it was built from another version or commit", text)
		}
	}

	return nil
}

// checkRun runs the program without an environment.
func checkRun(ctx context.Context, path string, r release) error {
	command := exec.CommandContext(ctx, path, "--version")
	command.Dir = os.TempDir()
	command.Env = []string{}

	output, err := command.CombinedOutput()
	if err != nil {
		return fmt.Errorf("run it with --version: %w: %s", err, output)
	}

	if !strings.Contains(string(output), r.version) || !strings.Contains(string(output), r.revision) {
		return fmt.Errorf("--version must print %s and %s, but prints: %s", r.version, r.revision, output)
	}

	return nil
}

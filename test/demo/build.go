// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/compile"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/screen"
)

func (d *demo) buildDriver(ctx context.Context) error {
	return d.build(ctx, "the driver", "bin/", "./cmd/...")
}

// render shows the objects that the driver would create for a machine; it needs no cluster.
func (d *demo) render(ctx context.Context) error {
	args := []string{"render", "-f", "kubernetes/example/machineclasses.yaml", "--class", classZ1, "--machine", classZ1 + "-demo"}
	d.out.Line("A machine of the demo's first MachineClass becomes this Secret and VirtualMachine on the provider cluster:")
	d.out.Line("")
	d.out.Line("$ %s %s", driver, strings.Join(args, " "))
	output, err := d.execute(exec.CommandContext(ctx, filepath.Join(d.root, driver), args...))
	d.out.Line("%s", indent(string(output)))
	if err == nil {
		d.out.Line("The driver is built, %s after the start. Everything below shows it at work.", screen.Clock(time.Since(d.begun)))
	}
	return err
}

// build compiles our own programs and reports its progress.
func (d *demo) build(ctx context.Context, name, output, packages string) error {
	d.out.Line("$ go build -o %s %s", output, packages)
	err := compile.Build(ctx, &screen.Lines{Screen: d.out}, compile.Program{Name: name, Root: d.root, Packages: packages, Output: output})
	d.out.Settle()
	return err
}

// execute runs a program in the repository. Its error includes the program's standard error.
func (d *demo) execute(command *exec.Cmd) ([]byte, error) {
	var stderr bytes.Buffer
	command.Dir = d.root
	command.Stderr = io.Writer(&stderr)
	output, err := command.Output()
	if err != nil {
		return output, fmt.Errorf("%s: %w: %s", filepath.Base(command.Path), err, strings.TrimSpace(stderr.String()))
	}
	return output, nil
}

// indent sets program output off from the demo's own lines.
func indent(text string) string {
	text = strings.TrimRight(text, "\n")
	return "    " + strings.ReplaceAll(text, "\n", "\n    ")
}

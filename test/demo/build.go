package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/demo/screen"
)

func (d *demo) buildDriver(ctx context.Context) error {
	return d.build(ctx, "./cmd/...")
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

// cancellable makes a go command use the folder work for temporary files, and makes its
// cancellation kill its compiler processes too. An interrupted go command leaves both behind.
func cancellable(command *exec.Cmd, work string) (string, error) {
	if err := errors.Join(os.RemoveAll(work), os.MkdirAll(work, 0o700)); err != nil {
		return "", fmt.Errorf("create the folder that go works in: %w", err)
	}
	command.Env = append(os.Environ(), "GOTMPDIR="+work)
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
	return work, nil
}

// build compiles our own programs into bin/ and reports its progress.
func (d *demo) build(ctx context.Context, packages string) error {
	args := []string{"build", "-v", "-buildvcs=false", "-o", "bin/", packages}
	d.out.Line("$ go build -o bin/ %s", packages)
	var count counter
	command := exec.CommandContext(ctx, "go", args...)
	command.Dir = d.root
	command.Stdout = &count
	command.Stderr = &count
	work, err := cancellable(command, filepath.Join(d.root, "bin", ".go-build"))
	if err != nil {
		return err
	}
	defer os.RemoveAll(work) //nolint:errcheck // the next build removes it too
	if err := command.Start(); err != nil {
		return fmt.Errorf("run go: %w", err)
	}
	begun := time.Now()
	done := make(chan error, 1)
	go func() { done <- command.Wait() }()
	var failed error
	err = poll(ctx, func() (bool, error) {
		select {
		case failed = <-done:
			return true, nil
		default:
			d.out.Progress("  "+count.describe(time.Since(begun)), packages)
			return false, nil
		}
	})
	if err != nil {
		failed = <-done // ctx also ends the command.
	}
	if err = errors.Join(err, failed); err != nil {
		return fmt.Errorf("go build %s: %w\n%s", packages, err, indent(count.last()))
	}
	d.out.Progress("  done: "+count.describe(time.Since(begun)), packages+" done")
	d.out.Settle()
	return nil
}

// counter counts the output lines of the go command: modules downloaded and packages compiled.
type counter struct {
	downloaded, compiled atomic.Int64
	tail                 screen.Tail
}

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

func (c *counter) last() string { return c.tail.String() }

func (c *counter) describe(elapsed time.Duration) string {
	return fmt.Sprintf("%s, %d modules downloaded, %d packages compiled", screen.Clock(elapsed), c.downloaded.Load(), c.compiled.Load())
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

// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/guest/host"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/process"
)

// copyFiles copies a file system into a folder that may contain some of its folders.
func copyFiles(from fs.FS, into string) error {
	return fs.WalkDir(from, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		target := filepath.Join(into, path)
		if entry.IsDir() {
			return os.MkdirAll(target, 0o755)
		}
		data, err := fs.ReadFile(from, path)
		if err != nil {
			return err
		}
		if err := os.WriteFile(target, data, 0o644); err != nil {
			return fmt.Errorf("write %s: %w", path, err)
		}
		return nil
	})
}

func copyFile(from, to string, mode os.FileMode) error {
	source, err := os.Open(from)
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	defer source.Close() //nolint:errcheck // read-only
	target, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, mode)
	if err != nil {
		return fmt.Errorf("create: %w", err)
	}
	if _, err := io.Copy(target, source); err != nil {
		_ = target.Close() // the copy has failed already
		return fmt.Errorf("copy %s: %w", from, err)
	}
	return target.Close()
}

// reaper waits for a program, and for the processes that others have left to it: libvirt waits until
// each QEMU that it has started is gone from the list of processes.
const reaper = `"$@" & wait $!`

// contained returns the arguments of unshare(1) for a program that ends together with everything that it
// has started, and whose mounts only exist for itself.
func contained(program string, args ...string) []string {
	return append([]string{"--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", reaper, "sh", program}, args...)
}

// runProgram runs a program of the host, which ends with the lab even if the lab is killed. The error
// contains the end of its output.
func runProgram(ctx context.Context, name string, args ...string) error {
	path, err := host.Find(name)
	if err != nil {
		return fmt.Errorf("find %s: %w", name, err)
	}
	command := exec.CommandContext(ctx, path, args...)
	command.Env = append(os.Environ(), "LC_ALL=C", "PATH="+os.Getenv("PATH")+":/usr/sbin:/sbin")
	var output bytes.Buffer
	command.Stdout = &output
	command.Stderr = &output
	command.SysProcAttr = process.BoundToParent()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err = command.Run()
	if ctx.Err() != nil { // which has killed the program
		return fmt.Errorf("%s: %w", name, ctx.Err())
	}
	if err != nil {
		const enough = 2000
		text := strings.TrimSpace(output.String())
		return fmt.Errorf("%s: %w: %s", name, err, text[max(0, len(text)-enough):])
	}
	return nil
}

// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// Run runs a command to its end. On Linux, the command is killed if the lab dies. The error contains the
// end of its output.
func Run(ctx context.Context, command *exec.Cmd) error {
	name := filepath.Base(command.Path)
	var output bytes.Buffer
	if command.Stdout == nil {
		command.Stdout = &output
	}
	command.Stderr = &output
	if command.SysProcAttr == nil {
		command.SysProcAttr = BoundToParent()
	}
	runtime.LockOSThread() // see BoundToParent
	defer runtime.UnlockOSThread()
	err := command.Run()
	if ctx.Err() != nil { // which has killed the command
		return fmt.Errorf("%s: %w", name, ctx.Err())
	}
	if err != nil {
		const enough = 2000
		text := strings.TrimSpace(output.String())
		return fmt.Errorf("%s: %w: %s", name, err, text[max(0, len(text)-enough):])
	}
	return nil
}

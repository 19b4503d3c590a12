// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"time"
)

// Host says in one sentence what a measurement in this process depends on besides the measured programs: the day, the
// commit of the working folder, the processor, the memory, the kernel and Go. It needs git and the proc file system.
func Host(ctx context.Context) (string, error) {
	commit, notGit := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty").Output()
	kernel, noKernel := os.ReadFile("/proc/sys/kernel/osrelease")
	processors, noProcessor := os.ReadFile("/proc/cpuinfo")
	memory, noMemory := os.ReadFile("/proc/meminfo")
	if err := errors.Join(notGit, noKernel, noProcessor, noMemory); err != nil {
		return "", fmt.Errorf("describe the host: %w", err)
	}
	var kibibytes float64
	if _, err := fmt.Sscanf(string(memory), "MemTotal: %f kB", &kibibytes); err != nil {
		return "", fmt.Errorf("describe the host's memory: %w", err)
	}
	return fmt.Sprintf("Measured on %s at commit %s: %d cores (%s), %.0f GiB of memory, Linux %s, %s, %s/%s.",
		time.Now().UTC().Format(time.DateOnly), bytes.TrimSpace(commit), runtime.NumCPU(), modelOf(processors), kibibytes/(1<<20),
		bytes.TrimSpace(kernel), runtime.Version(), runtime.GOOS, runtime.GOARCH), nil
}

// modelOf returns the processor's name from proc_cpuinfo(5), which does not have it on each architecture.
func modelOf(processors []byte) string {
	for line := range bytes.Lines(processors) {
		if name, model, _ := bytes.Cut(line, []byte(":")); string(bytes.TrimSpace(name)) == "model name" {
			return string(bytes.TrimSpace(model))
		}
	}
	return "of unknown model"
}

// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"bytes"
	"fmt"
	"os"
	"time"
)

// Memory is the resident memory of a process without that of files, in MiB: now, and the most so far, which is an estimate,
// since it lacks as much of files as is resident now. Of its program file, some kernels keep more than is used, and each gives
// that up before a container exceeds its limit.
type Memory struct {
	Used, Peak float64
}

// MemoryOf returns the memory of a process (proc_pid_status(5)).
func MemoryOf(pid int) (Memory, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return Memory{}, fmt.Errorf("read the memory of process %d: %w", pid, err)
	}
	var resident, most, files float64
	for field, value := range map[string]*float64{"VmRSS:": &resident, "VmHWM:": &most, "RssFile:": &files} {
		_, after, _ := bytes.Cut(status, []byte(field))
		if _, err := fmt.Sscanf(string(after), "%f kB", value); err != nil {
			return Memory{}, fmt.Errorf("read %s of process %d: %w", field, pid, err)
		}
		*value /= 1024
	}
	return Memory{Used: resident - files, Peak: most - files}, nil
}

// TimeOf returns the processor time that a process has used: utime and stime of proc_pid_stat(5), of which Linux counts a
// hundred a second for programs.
func TimeOf(pid int) (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("read the processor time of process %d: %w", pid, err)
	}
	const (
		before = 11 // fields between the name, which may contain spaces, and utime
		tick   = time.Second / 100
	)
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	var user, system int64
	if _, err := fmt.Sscan(string(bytes.Join(fields[before:before+2], []byte(" "))), &user, &system); err != nil {
		return 0, fmt.Errorf("read the processor time of process %d: %w", pid, err)
	}
	return time.Duration(user+system) * tick, nil
}

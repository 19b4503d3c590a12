// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// CPUTime returns the processor time of a process and all its descendants that run, such as a guest's
// QEMU.
func CPUTime(pid int) (time.Duration, error) {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, fmt.Errorf("list processes: %w", err)
	}
	children := map[int][]int{}
	used := map[int]time.Duration{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			continue // the process has ended
		}
		one, err := parseStat(string(data))
		if err != nil {
			return 0, err
		}
		children[one.parent] = append(children[one.parent], one.pid)
		used[one.pid] = one.used
	}
	return sum(pid, children, used), nil
}

func sum(pid int, children map[int][]int, used map[int]time.Duration) time.Duration {
	total := used[pid]
	for _, child := range children[pid] {
		total += sum(child, children, used)
	}
	return total
}

type stat struct {
	pid, parent int
	used        time.Duration
}

// parseStat parses /proc/PID/stat, see proc(5). The name of a program may contain spaces.
func parseStat(text string) (stat, error) {
	const parentField, userField, systemField = 1, 11, 12 // after the name
	const tick = 10 * time.Millisecond
	end := strings.LastIndex(text, ")")
	number, _, _ := strings.Cut(text, " ")
	fields := strings.Fields(text[end+1:])
	if end < 0 || len(fields) <= systemField {
		return stat{}, fmt.Errorf("parse %q: want the format of /proc/PID/stat", text)
	}
	var values [4]int
	for i, field := range []string{number, fields[parentField], fields[userField], fields[systemField]} {
		value, err := strconv.Atoi(field)
		if err != nil {
			return stat{}, fmt.Errorf("parse %q: %w", text, err)
		}
		values[i] = value
	}
	return stat{pid: values[0], parent: values[1], used: time.Duration(values[2]+values[3]) * tick}, nil
}

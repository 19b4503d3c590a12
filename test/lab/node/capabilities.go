// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
)

// capabilityNames are the names of Linux' capabilities by their numbers, without CAP_.
var capabilityNames = []string{
	"CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP", "LINUX_IMMUTABLE",
	"NET_BIND_SERVICE", "NET_BROADCAST", "NET_ADMIN", "NET_RAW", "IPC_LOCK", "IPC_OWNER", "SYS_MODULE", "SYS_RAWIO", "SYS_CHROOT",
	"SYS_PTRACE", "SYS_PACCT", "SYS_ADMIN", "SYS_BOOT", "SYS_NICE", "SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "MKNOD", "LEASE",
	"AUDIT_WRITE", "AUDIT_CONTROL", "SETFCAP", "MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG", "WAKE_ALARM", "BLOCK_SUSPEND", "AUDIT_READ",
	"PERFMON", "BPF", "CHECKPOINT_RESTORE",
}

// ownCapabilities returns the capabilities of this process: runc cannot give others to a node.
func ownCapabilities() ([]string, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return nil, fmt.Errorf("read the own capabilities: %w", err)
	}
	return parseCapabilities(string(status))
}

// parseCapabilities returns the effective capabilities in the status of a process.
func parseCapabilities(status string) ([]string, error) {
	match := regexp.MustCompile(`(?m)^CapEff:\s*([0-9a-f]+)$`).FindStringSubmatch(status)
	if match == nil {
		return nil, errors.New("read the own capabilities: /proc/self/status has no CapEff")
	}
	set, err := strconv.ParseUint(match[1], 16, 64)
	if err != nil {
		return nil, fmt.Errorf("read the own capabilities: %w", err)
	}
	var own []string
	for i, name := range capabilityNames {
		if set>>i&1 == 1 {
			own = append(own, "CAP_"+name)
		}
	}
	return own, nil
}

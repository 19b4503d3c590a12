// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

//go:build node

package node

import (
	"bufio"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// machine is what a lab could leave behind on this machine.
type machine struct {
	mounts     string
	interfaces []string
	cgroups    []string // of labs
	programs   []string // of nodes, with the numbers of their processes
	sysctls    map[string]string
}

// differs returns an error unless the states are the same.
func (m machine) differs(from machine) error {
	if reflect.DeepEqual(m, from) {
		return nil
	}

	return fmt.Errorf("%+v instead of %+v", m, from)
}

// lookAtMachine returns the state of this machine, without what belongs to other programs.
func lookAtMachine(t *testing.T) machine {
	t.Helper()

	var m machine

	mounts, err := os.ReadFile("/proc/self/mounts")
	require.NoError(t, err)

	m.mounts = string(mounts)

	interfaces, err := net.Interfaces()
	require.NoError(t, err)

	for _, found := range interfaces {
		m.interfaces = append(m.interfaces, found.Name)
	}

	// Cgroups of other programs come and go while this walks.
	_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return fs.SkipDir
		}

		if entry.IsDir() && strings.HasPrefix(entry.Name(), "lab-") {
			m.cgroups = append(m.cgroups, path)

			return fs.SkipDir
		}

		return nil
	})

	m.programs = nodePrograms()
	m.sysctls = map[string]string{}

	for _, name := range []string{
		"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops", "kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes",
		"net/ipv4/ip_forward",
	} {
		value, err := os.ReadFile("/proc/sys/" + name)
		require.NoError(t, err)

		m.sysctls[name] = string(value)
	}

	return m
}

// nodePrograms returns the programs of nodes that run on this machine.
func nodePrograms() []string {
	files, _ := filepath.Glob("/proc/[0-9]*/comm") // the pattern is valid

	var found []string

	for _, file := range files {
		name, err := os.ReadFile(filepath.Clean(file))
		if err != nil { // it has just ended
			continue
		}

		if slices.Contains([]string{"kubelet", "containerd", "virt-handler", "virt-launcher"}, strings.TrimSpace(string(name))) {
			found = append(found, file+" "+string(name))
		}
	}

	return found
}

// awaitLine reads until a line contains a text.
func awaitLine(t *testing.T, from io.Reader, text string) {
	t.Helper()

	lines := bufio.NewScanner(from)
	for lines.Scan() {
		t.Log(lines.Text())

		if strings.Contains(lines.Text(), text) {
			go func() { _, _ = io.Copy(io.Discard, from) }() // so that the lab can go on

			return
		}
	}

	require.Fail(t, "the lab has ended", "%v", lines.Err())
}

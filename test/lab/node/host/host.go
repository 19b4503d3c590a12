// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package host checks whether a machine can run real nodes. It depends only on the standard library, since the demo calls it
// before any dependency is downloaded.
package host

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// ErrMissing is the error of a machine that cannot run real nodes.
var ErrMissing = errors.New("this machine cannot run real nodes")

// Keyring signs the packages that are unpacked; the one of Debian 12 knows the suite, too.
const Keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"

// programs are those of the machine by the packages of Debian and Ubuntu that contain them. All other programs are unpacked.
var programs = []struct{ name, debian string }{
	{name: Keyring, debian: "debian-archive-keyring"},
	{name: "mmdebstrap", debian: "mmdebstrap"},
	{name: "gcc", debian: "gcc libc6-dev"},
	{name: "setcap", debian: "libcap2-bin"},
	{name: "tar", debian: "tar"},
	{name: "unshare", debian: "util-linux"},
	{name: "mount", debian: "mount"},
	{name: "find", debian: "findutils"},
}

// machine is a machine that may run nodes.
type machine struct {
	platform string // operating system and architecture
	user     int
	has      func(program string) bool
	// isolate makes the namespaces of the lab and of a node, and ends at once.
	isolate func() error
	// cgroups returns an error if a node cannot have cgroups with controllers.
	cgroups func() error
}

// Check returns an error that wraps ErrMissing and names what is missing and its remedy, unless this machine can run nodes.
func Check() error {
	return machine{
		platform: runtime.GOOS + "/" + runtime.GOARCH,
		user:     os.Geteuid(),
		has:      installed,
		isolate:  isolate,
		cgroups:  func() error { return checkCgroups("/sys/fs/cgroup", "/proc/self/cgroup", isDelegated) },
	}.check()
}

func (m machine) check() error {
	if m.platform != "linux/amd64" {
		return fmt.Errorf("%w: they need Linux on amd64", ErrMissing)
	}
	if m.user != 0 {
		return fmt.Errorf("%w: they need root; run the command with sudo", ErrMissing)
	}
	var names, packages []string
	for _, p := range programs {
		if !m.has(p.name) {
			names = append(names, p.name)
			packages = append(packages, p.debian)
		}
	}
	if len(names) > 0 {
		return fmt.Errorf("%w: it lacks %s. On Debian or Ubuntu, install them with: apt-get install --no-install-recommends %s",
			ErrMissing, strings.Join(names, ", "), strings.Join(packages, " "))
	}
	if err := m.isolate(); err != nil {
		return fmt.Errorf("%w: it refuses namespaces, as containers without privileges do: %w; run the command on a virtual machine, "+
			"or in a privileged container", ErrMissing, err)
	}
	if err := m.cgroups(); err != nil {
		return fmt.Errorf("%w: %w", ErrMissing, err)
	}
	return nil
}

func installed(program string) bool {
	if filepath.IsAbs(program) {
		_, err := os.Stat(program)
		return err == nil
	}
	for _, folder := range []string{"", "/usr/sbin/", "/sbin/"} {
		if _, err := exec.LookPath(folder + program); err == nil {
			return true
		}
	}
	return false
}

func isolate() error {
	output, err := exec.Command("unshare", "--mount", "--net", "--pid", "--uts", "--ipc", "--cgroup", "--fork", "true").CombinedOutput() //nolint:noctx // ends at once
	if err != nil {
		return fmt.Errorf("unshare: %w: %s", err, strings.TrimSpace(string(output)))
	}
	return nil
}

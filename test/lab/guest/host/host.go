// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package host checks whether a machine can run real guests, and finds the programs for it. It depends
// only on the standard library, since the demo calls it before any dependency is downloaded.
package host

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
)

// ErrMissing is the error of a machine that cannot run real guests.
var ErrMissing = errors.New("this machine cannot run real guests")

// GRUBModules is the folder of GRUB for the BIOS.
const GRUBModules = "/usr/lib/grub/i386-pc"

// program is a program of the host, or a file, with the Debian package that contains it.
type program struct {
	name, file, debian string
}

func programs() []program {
	return []program{
		{name: "qemu-system-x86_64", debian: "qemu-system-x86"},
		{name: "qemu-img", debian: "qemu-utils"},
		{name: "virt-qemu-run", debian: "libvirt-daemon-driver-qemu"},
		{name: "libvirtd", debian: "libvirt-daemon"},
		{name: "xorrisofs", debian: "xorriso"},
		{name: "mmdebstrap", debian: "mmdebstrap"},
		{name: "sfdisk", debian: "fdisk"},
		{name: "mke2fs", debian: "e2fsprogs"},
		{name: "grub-mkimage", debian: "grub-common"},
		{name: "GRUB for BIOS", file: GRUBModules + "/boot.img", debian: "grub-pc-bin"},
		{name: "unshare", debian: "util-linux"},
		{name: "ssh", debian: "openssh-client"}, // of the tests, like the next
		{name: "ssh-keygen", debian: "openssh-client"},
	}
}

// machine is a machine that may run guests.
type machine struct {
	platform string // operating system and architecture
	user     int
	has      func(program) bool
}

// Check returns an error that wraps ErrMissing, and names what is missing and the command that installs
// it, unless this machine can build the image and run guests.
func Check() error {
	return machine{platform: runtime.GOOS + "/" + runtime.GOARCH, user: os.Geteuid(), has: program.installed}.check()
}

func (m machine) check() error {
	if m.platform != "linux/amd64" {
		return fmt.Errorf("%w: they need Linux on amd64", ErrMissing)
	}
	var names, packages []string
	for _, p := range programs() {
		if m.has(p) {
			continue
		}
		names = append(names, p.name)
		if !slices.Contains(packages, p.debian) {
			packages = append(packages, p.debian)
		}
	}
	if len(names) > 0 {
		return fmt.Errorf("%w: it lacks %s. On Debian 12, install them with: apt-get install --no-install-recommends %s",
			ErrMissing, strings.Join(names, ", "), strings.Join(packages, " "))
	}
	if m.user != 0 {
		return fmt.Errorf("%w: only root can build the image, since its files belong to several users", ErrMissing)
	}
	return nil
}

func (p program) installed() bool {
	if p.file != "" {
		_, err := os.Stat(p.file)
		return err == nil
	}
	_, err := Find(p.name)
	return err == nil
}

// Find finds a program also in the folders of administrators, which PATH may lack.
func Find(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err == nil {
		return path, nil
	}
	for _, folder := range []string{"/usr/sbin/", "/sbin/"} {
		if path, err := exec.LookPath(folder + name); err == nil {
			return path, nil
		}
	}
	return "", err
}

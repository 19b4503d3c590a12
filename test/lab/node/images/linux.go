// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"archive/tar"
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/node/root"
)

// Linux is an image with a kernel and an initramfs, from which a guest boots within seconds even if it is emulated. The guest is Busybox, which
// runs its user data as a script (files/linux/init).
const (
	Linux       = "lab.local/linux:1"
	LinuxKernel = "/boot/vmlinuz"
	LinuxInitrd = "/boot/initrd"
)

// writeLinux writes the image of Linux. The folders are those of package root.
func writeLinux(packages, kernel, file string) error {
	initrd, err := initramfs(packages, kernel)
	if err != nil {
		return err
	}
	vmlinuz, err := os.ReadFile(filepath.Join(kernel, root.Kernel))
	if err != nil {
		return fmt.Errorf("read the kernel: %w", err)
	}
	lower := file + ".lower"
	err = writeLayer(lower,
		entry{Header: tar.Header{Name: LinuxKernel[1:], Mode: 0o644}, content: vmlinuz},
		entry{Header: tar.Header{Name: LinuxInitrd[1:], Mode: 0o644}, content: initrd})
	if err != nil {
		return err
	}
	return writeArchive(file, []string{lower}, config{name: Linux, user: fmt.Sprint(qemu), entrypoint: []string{"/none"}})
}

// initramfs returns the root folder of the guest in the format newc of cpio(1).
func initramfs(packages, kernel string) ([]byte, error) {
	const folder, program, file = 0o040755, 0o100755, 0o100644
	a := &cpio{}
	for _, name := range []string{"bin", "dev", "etc", "modules", "proc", "root", "run", "seed", "sys", "tmp", "usr", "usr/bin", "usr/sbin", "sbin", "var"} {
		a.add(name, folder, nil)
	}
	a.addDevice("dev/console", 0o020600, 5, 1) //nolint:mnd // the console that the kernel opens for process 1
	first, err := files.ReadFile("files/linux/init")
	if err != nil {
		return nil, fmt.Errorf("find init: %w", err)
	}
	a.add("init", program, first)
	busybox, err := os.ReadFile(filepath.Join(packages, "usr/bin/busybox"))
	if err != nil {
		return nil, fmt.Errorf("read busybox: %w", err)
	}
	a.add("bin/busybox", program, busybox)
	modules, err := os.ReadDir(filepath.Join(kernel, root.Modules))
	if err != nil {
		return nil, fmt.Errorf("list the kernel's modules: %w", err)
	}
	for _, module := range modules {
		data, err := os.ReadFile(filepath.Join(kernel, root.Modules, module.Name()))
		if err != nil {
			return nil, fmt.Errorf("read module: %w", err)
		}
		a.add("modules/"+module.Name(), file, data)
	}
	a.add("TRAILER!!!", 0, nil)
	return a.data.Bytes(), nil
}

// cpio is an archive in the format newc.
type cpio struct {
	data    bytes.Buffer
	entries int
}

func (a *cpio) add(name string, mode int, content []byte) { a.write(name, mode, 0, 0, content) }

func (a *cpio) addDevice(name string, mode, major, minor int) { a.write(name, mode, major, minor, nil) }

// write adds an entry: the header of hexadecimal numbers, the name and the content, each padded to four bytes.
func (a *cpio) write(name string, mode, major, minor int, content []byte) {
	a.entries++
	fmt.Fprint(&a.data, "070701")
	for _, number := range []int{a.entries, mode, 0, 0, 1, 0, len(content), 0, 0, major, minor, len(name) + 1, 0} {
		fmt.Fprintf(&a.data, "%08X", number)
	}
	a.data.WriteString(name + "\x00")
	a.pad()
	a.data.Write(content)
	a.pad()
}

func (a *cpio) pad() {
	const word = 4
	for a.data.Len()%word != 0 {
		a.data.WriteByte(0)
	}
}

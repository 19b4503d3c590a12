// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/guest/host"
)

const (
	diskSize       = 3 << 30
	partitionStart = 1 << 20
	// commandLine saves what an emulated processor is slow at, and sends the console to the serial port.
	commandLine = "root=LABEL=root ro console=ttyS0 mitigations=off audit=0 apparmor=0 quiet"
)

// writeDisk makes a disk with one partition from a root folder. The disk boots from the BIOS, as
// KubeVirt's guests do by default. No step mounts the disk.
func writeDisk(ctx context.Context, root, disk string) error {
	if err := writeBootMenu(root); err != nil {
		return err
	}
	if err := os.WriteFile(disk, nil, 0o600); err != nil {
		return fmt.Errorf("create disk: %w", err)
	}
	if err := os.Truncate(disk, diskSize); err != nil {
		return fmt.Errorf("size disk: %w", err)
	}
	layout := filepath.Join(filepath.Dir(disk), "layout")
	if err := os.WriteFile(layout, []byte("label: dos\n2048,,L,*\n"), 0o600); err != nil {
		return fmt.Errorf("write partition table: %w", err)
	}
	if err := runProgram(ctx, "sh", "-c", `sfdisk --quiet "$1" < "$2"`, "sh", disk, layout); err != nil {
		return err
	}
	const kibibyte = 1024
	err := runProgram(ctx, "mke2fs", "-q", "-t", "ext4", "-L", "root",
		"-O", "^metadata_csum_seed,^orphan_file", // which Debian's GRUB cannot read
		"-d", root, "-E", "offset="+strconv.Itoa(partitionStart), disk,
		strconv.Itoa((diskSize-partitionStart)/kibibyte)+"k")
	if err != nil {
		return err
	}
	return writeBootLoader(ctx, disk)
}

// writeBootMenu makes GRUB boot the only kernel.
func writeBootMenu(root string) error {
	kernels, err := filepath.Glob(filepath.Join(root, "boot/vmlinuz-*"))
	if err != nil || len(kernels) != 1 {
		return errors.Join(fmt.Errorf("want one kernel in %s/boot, found %d", root, len(kernels)), err)
	}
	version := filepath.Base(kernels[0])[len("vmlinuz-"):]
	menu := fmt.Sprintf("linux /boot/vmlinuz-%s %s\ninitrd /boot/initrd.img-%s\nboot\n", version, commandLine, version)
	path := filepath.Join(root, "boot/grub/grub.cfg")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("create folder for GRUB: %w", err)
	}
	if err := os.WriteFile(path, []byte(menu), 0o644); err != nil {
		return fmt.Errorf("write GRUB's menu: %w", err)
	}
	return nil
}

// writeBootLoader writes GRUB to the first sector and to the gap before the partition.
func writeBootLoader(ctx context.Context, disk string) error {
	core := filepath.Join(filepath.Dir(disk), "core.img")
	err := runProgram(ctx, "grub-mkimage", "-O", "i386-pc", "-p", "(hd0,msdos1)/boot/grub", "-o", core,
		"biosdisk", "part_msdos", "ext2", "linux", "normal", "configfile", "boot")
	if err != nil {
		return err
	}
	target, err := os.OpenFile(disk, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("open disk: %w", err)
	}
	const codeSize, sector = 440, 512 // the rest of the first sector is the partition table
	err = errors.Join(
		copyAt(target, host.GRUBModules+"/boot.img", 0, codeSize),
		copyAt(target, core, sector, partitionStart-sector),
		target.Close(),
	)
	return errors.Join(err, os.Remove(core))
}

// copyAt copies at most limit bytes of a file to an offset of the disk.
func copyAt(disk io.WriterAt, file string, offset int64, limit int) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read boot loader: %w", err)
	}
	if len(data) > limit {
		data = data[:limit]
	}
	if _, err := disk.WriteAt(data, offset); err != nil {
		return fmt.Errorf("write boot loader: %w", err)
	}
	return nil
}

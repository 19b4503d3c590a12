// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"fmt"
	"os"
)

// Counter is a container disk with the smallest guest, which runs as soon as the BIOS is done: it counts seconds on its serial console, a
// line each, in four hexadecimal digits. A migrated guest counts on.
const Counter = "lab.local/counter:1"

// bootSector is the guest: code of the 8086 at address 0x7c00.
var bootSector = []byte{
	0x31, 0xc0, // xor ax, ax
	0x8e, 0xd8, // mov ds, ax
	0x8e, 0xd0, // mov ss, ax
	0xbc, 0x00, 0x7c, // mov sp, 0x7c00
	0xfb,       // sti
	0x31, 0xdb, // xor bx, bx
	// next:
	0xb9, 0x12, 0x00, // mov cx, 18: the timer interrupts 18 times a second
	// wait:
	0xf4,       // hlt
	0xe2, 0xfd, // loop wait
	0x43,       // inc bx
	0xb5, 0x04, // mov ch, 4
	0xba, 0xf8, 0x03, // mov dx, 0x3f8: the first serial port
	// digit:
	0xc1, 0xc3, 0x04, // rol bx, 4
	0x88, 0xd8, // mov al, bl
	0x24, 0x0f, // and al, 15
	0x3c, 0x0a, // cmp al, 10
	0x1c, 0x69, // sbb al, 0x69: with das, the digit in ASCII
	0x2f,       // das
	0xee,       // out dx, al
	0xfe, 0xcd, // dec ch
	0x75, 0xef, // jnz digit
	0xb0, 0x0d, 0xee, // mov al, '\r'; out dx, al
	0xb0, 0x0a, 0xee, // mov al, '\n'; out dx, al
	0xeb, 0xdb, // jmp next
}

// CounterDisk returns a disk of one mebibyte with the boot sector.
func CounterDisk() []byte {
	const size, signature = 1 << 20, 510
	disk := make([]byte, size)
	copy(disk, bootSector)
	disk[signature] = 0x55
	disk[signature+1] = 0xaa
	return disk
}

// writeCounter writes the image of Counter.
func writeCounter(file string) error {
	disk, lower := file+".img", file+".lower"
	if err := os.WriteFile(disk, CounterDisk(), 0o600); err != nil {
		return fmt.Errorf("write disk: %w", err)
	}
	if err := writeDiskLayer(disk, lower); err != nil {
		return fmt.Errorf("write layer: %w", err)
	}
	return writeArchive(file, []string{lower}, config{name: Counter, user: fmt.Sprint(qemu), entrypoint: []string{"/none"}})
}

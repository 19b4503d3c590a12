// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"archive/tar"
	"fmt"
	"os"
	"path/filepath"
)

// commands are the commands of busybox in its image.
var commands = []string{"sh", "sleep", "echo", "cat", "id", "hostname", "wget", "date", "ip", "ping", "nc", "httpd", "ls", "mount"}

// writeBusybox writes the image of Busybox.
func writeBusybox(root, file string) error {
	program, err := os.ReadFile(filepath.Join(root, "usr/bin/busybox"))
	if err != nil {
		return fmt.Errorf("read busybox: %w", err)
	}
	entries := []entry{{Header: tar.Header{Name: "bin/busybox", Mode: 0o755}, content: program}}
	for _, command := range commands {
		entries = append(entries, entry{Header: tar.Header{Name: "bin/" + command, Typeflag: tar.TypeSymlink, Linkname: "busybox"}})
	}
	lower := file + ".lower"
	if err := writeLayer(lower, entries...); err != nil {
		return err
	}
	return writeArchive(file, []string{lower}, config{name: Busybox, entrypoint: []string{"/bin/sleep", "2147483647"}})
}

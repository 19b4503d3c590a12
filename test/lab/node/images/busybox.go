// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"archive/tar"
	"bytes"
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
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	headers := []*tar.Header{{Name: "bin/busybox", Mode: 0o755, Size: int64(len(program))}}
	for _, command := range commands {
		headers = append(headers, &tar.Header{Name: "bin/" + command, Typeflag: tar.TypeSymlink, Linkname: "busybox"})
	}
	for _, header := range headers {
		if err := w.WriteHeader(header); err != nil {
			return fmt.Errorf("archive %s: %w", header.Name, err)
		}
		if header.Size == 0 {
			continue
		}
		if _, err := w.Write(program); err != nil {
			return fmt.Errorf("archive %s: %w", header.Name, err)
		}
	}
	if err := w.Close(); err != nil {
		return fmt.Errorf("end layer: %w", err)
	}
	lower := file + ".lower"
	if err := os.WriteFile(lower, layer.Bytes(), 0o600); err != nil {
		return fmt.Errorf("write layer: %w", err)
	}
	return writeArchive(file, []string{lower}, config{name: Busybox, entrypoint: []string{"/bin/sleep", "2147483647"}})
}

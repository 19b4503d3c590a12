// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package root

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/binaries"
)

// Files in the folder of EnsureKernel: Debian's kernel for virtual machines, and a folder of its modules, whose names sort in the order in
// which they can be loaded.
const (
	Kernel  = "vmlinuz"
	Modules = "modules"
)

const kernelPackage = "linux-image-cloud-amd64"

// moduleNames are the modules for a guest's networks, its disks and the disk with its user data.
var moduleNames = []string{
	"failover", "net_failover", "virtio_net",
	"scsi_common", "scsi_mod", "sd_mod", "virtio_scsi", "virtio_blk",
	"cdrom", "isofs",
}

// EnsureKernel returns the folder of the kernel, and first unpacks it unless a recent one exists.
func EnsureKernel(ctx context.Context, progress io.Writer) (string, error) {
	return binaries.EnsureArtifact(ctx, progress, kernelArtifact())
}

func kernelArtifact() binaries.Artifact {
	sum := sha256.Sum256([]byte(suite + kernelPackage + strings.Join(moduleNames, " ")))
	return binaries.Artifact{
		Name:     "Debian's kernel for guests",
		Set:      "kernel",
		Hash:     hex.EncodeToString(sum[:])[:12],
		Outputs:  []string{Kernel, Modules},
		Estimate: 20 * time.Second,
		MaxAge:   maxAge,
		Produce:  produceKernel,
	}
}

// produceKernel unpacks the kernel with the packages that it depends on, of which no script runs.
func produceKernel(ctx context.Context, into string) error {
	unpacked := filepath.Join(into, "packages")
	if err := Unpack(ctx, kernelPackage, unpacked, "--variant=extract"); err != nil {
		return err
	}
	if err := pick(unpacked, "boot/vmlinuz-*", filepath.Join(into, Kernel)); err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(into, Modules), 0o750); err != nil {
		return fmt.Errorf("create folder: %w", err)
	}
	for i, name := range moduleNames {
		to := filepath.Join(into, Modules, fmt.Sprintf("%02d-%s.ko.xz", i, name))
		if err := pick(unpacked, "usr/lib/modules/*/kernel/*/*/"+name+".ko.xz", to); err != nil {
			return err
		}
	}
	return nil
}

// pick moves the only file that matches a pattern.
func pick(folder, pattern, to string) error {
	found, err := filepath.Glob(filepath.Join(folder, pattern))
	if err != nil {
		return fmt.Errorf("look for %s: %w", pattern, err)
	}
	if len(found) != 1 {
		return fmt.Errorf("find %[2]s in Debian's packages: %[1]d files instead of one", len(found), pattern)
	}
	return os.Rename(found[0], to)
}

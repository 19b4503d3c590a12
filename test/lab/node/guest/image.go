// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package guest builds the disk image of workers on real nodes: Debian with cloud-init, containerd and kubelet.
//
// The environment calls it for tests, which serve the image to CDI's importer. It must not know how guests boot.
package guest

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/binaries"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/node/images"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/node/root"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/process"
)

// recipe is what builds the image: an image of another one is not used.
//
//go:embed all:rootfs build.sh image.go packages.txt
var recipe embed.FS

const (
	imageFile = "disk.qcow2"
	// versionsFile has the versions of the packages, where root.Versions looks for it.
	versionsFile = "versions"
	// maxAge bounds the age of an image, since its packages change without its recipe.
	maxAge = 30 * 24 * time.Hour
	// initramfs makes the initramfs small, which is unpacked on an emulated processor.
	initramfs = `mkdir -p "$1/etc/initramfs-tools/conf.d"
printf 'MODULES=list\nCOMPRESS=lz4\n' > "$1/etc/initramfs-tools/conf.d/lab"
printf 'virtio_pci\nvirtio_blk\next4\n' > "$1/etc/initramfs-tools/modules"`
)

// Parts are the files and folders from which the image is built. Their paths contain the hashes of what they are.
type Parts struct {
	Kubelet string // the program
	Root    string // the folder of package root, with more programs
	Images  string // the folder of package images
}

// Ensure returns the disk image, and first builds it unless a recent one exists.
func Ensure(ctx context.Context, p Parts, progress io.Writer) (string, error) {
	h := sha256.New()
	fmt.Fprintln(h, p)
	if err := binaries.HashFiles(h, recipe); err != nil {
		return "", fmt.Errorf("hash the recipe of the guests' image: %w", err)
	}
	folder, err := binaries.EnsureArtifact(ctx, progress, binaries.Artifact{
		Name:     "the guests' image",
		Set:      "guest",
		Hash:     hex.EncodeToString(h.Sum(nil))[:12],
		Outputs:  []string{imageFile, versionsFile},
		Estimate: 3 * time.Minute,
		MaxAge:   maxAge,
		Produce:  p.build,
	})
	return filepath.Join(folder, imageFile), err
}

// build writes the image into a folder. The caller removes everything else there.
func (p Parts) build(ctx context.Context, into string) error {
	if err := os.CopyFS(into, recipe); err != nil {
		return fmt.Errorf("write the recipe of the guests' image: %w", err)
	}
	packages, err := recipe.ReadFile("packages.txt")
	if err != nil {
		return fmt.Errorf("read the list of packages: %w", err)
	}
	if err := root.Unpack(ctx, string(packages), filepath.Join(into, "root"), "--essential-hook="+initramfs); err != nil {
		return err
	}
	if err := root.WriteVersions(ctx, filepath.Join(into, "root"), filepath.Join(into, versionsFile)); err != nil {
		return err
	}
	command := root.Command(ctx, "sh", filepath.Join(into, "build.sh"), into, p.Root, p.Kubelet, filepath.Join(p.Images, images.BusyboxArchive))
	if err := process.Run(ctx, command); err != nil {
		return fmt.Errorf("write the disk: %w", err)
	}
	return nil
}

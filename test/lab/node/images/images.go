// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package images writes the container images of real nodes as archives, which `ctr images import` reads, and serves the image of guests,
// which few nodes need, from a registry.
//
// Package node imports them. It must not depend on how nodes run.
package images

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
)

// Names of images.
const (
	// Busybox sleeps by default. It is also the image of the pods' sandboxes.
	Busybox = "lab.local/busybox:1"
	// VirtHandler and VirtLauncher have the version of KubeVirt as their tag.
	VirtHandler  = "lab.local/virt-handler"
	VirtLauncher = "lab.local/virt-launcher"
	// NextVirtLauncher is the image of an upgrade.
	NextVirtLauncher = "lab.local/virt-launcher:next"
	// Importer, Cloner and UploadServer are the images of CDI's pods (modules/cdi-1.65).
	Importer     = "lab.local/cdi-importer:latest"
	Cloner       = "lab.local/cdi-cloner:latest"
	UploadServer = "lab.local/cdi-uploadserver:latest"
)

// builder is the code that writes the images: those of other code are not used.
//
//go:embed *.go files
var builder embed.FS

// BusyboxArchive is the file with the image of Busybox in the folder of Ensure.
const BusyboxArchive = "busybox.tar"

// archives are the files in that folder.
var archives = []string{BusyboxArchive, "counter.tar", "linux.tar", "kubevirt.tar"}

// Ensure returns a folder with an archive for each image, and first writes them if they are missing. packages and kernel are
// the folders of package root.
func Ensure(ctx context.Context, built *binaries.Binaries, packages, kernel string, progress io.Writer) (string, error) {
	hash, err := hashRecipe(built, packages, kernel)
	if err != nil {
		return "", err
	}
	return binaries.EnsureArtifact(ctx, progress, binaries.Artifact{
		Name:     "container images of nodes",
		Set:      "images",
		Hash:     hash,
		Outputs:  archives,
		Estimate: 20 * time.Second,
		Produce: func(ctx context.Context, into string) error {
			if err := writeBusybox(packages, filepath.Join(into, archives[0])); err != nil {
				return err
			}
			if err := writeCounter(filepath.Join(into, archives[1])); err != nil {
				return err
			}
			if err := writeLinux(packages, kernel, filepath.Join(into, archives[2])); err != nil {
				return err
			}
			return writeKubeVirt(ctx, built, packages, filepath.Join(into, archives[3]))
		},
	})
}

// hashRecipe identifies the images. The paths contain the hashes of what is in the folders, except for packages
// that were unpacked again.
func hashRecipe(built *binaries.Binaries, folders ...string) (string, error) {
	h := sha256.New()
	fmt.Fprintln(h, built.NodePrograms, built.CDIImporter)
	for _, folder := range folders {
		info, err := os.Stat(folder)
		if err != nil {
			return "", fmt.Errorf("find the packages: %w", err)
		}
		fmt.Fprintln(h, folder, info.ModTime().UnixNano())
	}
	if err := binaries.HashFiles(h, builder); err != nil {
		return "", fmt.Errorf("hash the recipe of the images: %w", err)
	}
	return hex.EncodeToString(h.Sum(nil))[:12], nil
}

// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/binaries"
)

// The content of the image: Debian's packages, and files that are added to them.
var (
	//go:embed packages.txt
	packageList string
	//go:embed all:rootfs
	rootfs embed.FS
	// builder is the code that builds the image: an image of other code is not used.
	//go:embed containerimage.go disk.go files.go image.go
	builder embed.FS
)

const (
	suite = "bookworm"
	// imageFile is the finished image, which is raw, as on a filesystem volume of KubeVirt.
	imageFile = "disk.raw"
	// maxAge bounds the age of an image, since its packages change without its recipe.
	maxAge = 30 * 24 * time.Hour
)

// EnsureImage returns the disk image of the guests, and first builds it unless a recent one exists.
// kubelet is the program that the image contains.
func EnsureImage(ctx context.Context, kubelet string, progress io.Writer) (string, error) {
	hash, err := hashRecipe(kubelet)
	if err != nil {
		return "", err
	}
	folder, err := binaries.EnsureArtifact(ctx, progress, binaries.Artifact{
		Name:     "the guests' image",
		Set:      "guest",
		Hash:     hash,
		Outputs:  []string{imageFile},
		Estimate: 3 * time.Minute,
		MaxAge:   maxAge,
		Produce:  func(ctx context.Context, into string) error { return build(ctx, kubelet, into) },
	})
	return filepath.Join(folder, imageFile), err
}

// hashRecipe identifies an image. The path of kubelet contains the hash of its module.
func hashRecipe(kubelet string) (string, error) {
	h := sha256.New()
	fmt.Fprintln(h, kubelet, packageList)
	for _, files := range []fs.FS{rootfs, builder} {
		if err := hashFiles(h, files); err != nil {
			return "", fmt.Errorf("hash the recipe of the image: %w", err)
		}
	}
	return hex.EncodeToString(h.Sum(nil))[:12], nil
}

// hashFiles writes the paths of files, and the checksums of their contents.
func hashFiles(into io.Writer, files fs.FS) error {
	return fs.WalkDir(files, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := fs.ReadFile(files, path)
		fmt.Fprintf(into, "%s %x\n", path, sha256.Sum256(data))
		return err
	})
}

// build writes the image into a folder. The caller removes everything else there.
func build(ctx context.Context, kubelet, into string) error {
	root := filepath.Join(into, "root")
	for _, step := range []struct {
		name string
		run  func() error
	}{
		{"install the packages", func() error { return installPackages(ctx, root) }},
		{"add files", func() error { return addFiles(root, kubelet) }},
		{"write the container image", func() error { return writeContainerImage(root) }},
		{"write the disk", func() error { return writeDisk(ctx, root, filepath.Join(into, imageFile)) }},
		{"remove the files of the image", func() error { return os.RemoveAll(root) }},
	} {
		if err := step.run(); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	return nil
}

// initramfs makes the initramfs small, which is unpacked on an emulated processor.
const initramfs = `mkdir -p "$1/etc/initramfs-tools/conf.d"
printf 'MODULES=list\nCOMPRESS=lz4\n' > "$1/etc/initramfs-tools/conf.d/lab"
printf 'virtio_pci\nvirtio_blk\next4\n' > "$1/etc/initramfs-tools/modules"`

// installPackages makes a root folder from the mirror of this machine, or Debian's.
func installPackages(ctx context.Context, root string) error {
	args := []string{
		"--mode=root", "--variant=minbase", "--format=directory", "--quiet",
		"--include=" + strings.Join(strings.Fields(packageList), ","),
		`--aptopt=APT::Install-Recommends "false"`,
		"--dpkgopt=path-exclude=/usr/share/doc/*", "--dpkgopt=path-exclude=/usr/share/man/*",
		"--dpkgopt=path-exclude=/usr/share/locale/*",
		"--essential-hook=" + initramfs,
		suite, root,
	}
	const sources = "/etc/apt/sources.list.d/debian.sources"
	if data, err := os.ReadFile(sources); err == nil && strings.Contains(string(data), suite) {
		args = append(args, sources)
	}
	return runProgram(ctx, "unshare", contained("mmdebstrap", args...)...)
}

// masked are units that a worker of the lab does not need, and that would start on their own.
func masked() []string {
	return []string{"apt-daily.timer", "apt-daily-upgrade.timer", "e2scrub_all.timer", "fstrim.timer", "dpkg-db-backup.timer"}
}

// addFiles adds kubelet, our own files and links to a root folder.
func addFiles(root, kubelet string) error {
	files, err := fs.Sub(rootfs, "rootfs")
	if err != nil {
		return err
	}
	if err := copyFiles(files, root); err != nil {
		return err
	}
	if err := copyFile(kubelet, filepath.Join(root, "usr/bin/kubelet"), 0o755); err != nil {
		return err
	}
	links := map[string]string{ // from containerd's default configuration to Debian's folder
		"opt/cni/bin": "/usr/lib/cni",
		"etc/systemd/system/multi-user.target.wants/lab-images.service": "/etc/systemd/system/lab-images.service",
	}
	for _, unit := range masked() {
		links["etc/systemd/system/"+unit] = "/dev/null"
	}
	for name, target := range links {
		if err := replaceLink(target, filepath.Join(root, name)); err != nil {
			return err
		}
	}
	// systemd makes the machine ID from the firmware's UUID, and cloud-init sets the host name.
	if err := os.WriteFile(filepath.Join(root, "etc/machine-id"), nil, 0o444); err != nil {
		return fmt.Errorf("empty the machine ID: %w", err)
	}
	if err := os.RemoveAll(filepath.Join(root, "etc/hostname")); err != nil {
		return fmt.Errorf("remove the host name: %w", err)
	}
	return nil
}

func replaceLink(target, name string) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return fmt.Errorf("create folder: %w", err)
	}
	if err := os.RemoveAll(name); err != nil {
		return fmt.Errorf("remove %s: %w", name, err)
	}
	return os.Symlink(target, name)
}

// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/binaries"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/process"
)

// files adapt Debian's packages to virt-launcher. Debian's libvirtd requires users and groups of its own in passwd and group.
//
//go:embed files
var files embed.FS

// qemu is the user of virt-launcher.
const qemu = 107

// writeKubeVirt writes the images of virt-handler, virt-launcher and CDI's pods, which have the same files. The lower
// layer has Debian's packages, the upper one KubeVirt's and CDI's programs and files.
func writeKubeVirt(ctx context.Context, built *binaries.Binaries, root, file string) error {
	lower := file + ".lower"
	if err := archive(ctx, root, lower); err != nil {
		return err
	}
	folder := file + ".root"
	if err := fillUpper(ctx, built, root, folder); err != nil {
		return err
	}
	upper := file + ".upper"
	if err := archive(ctx, folder, upper); err != nil {
		return err
	}
	tag := ":" + string(built.KubeVirtVersion)
	user := fmt.Sprint(qemu)
	if built.KubeVirtVersion.Before("1.9") {
		user = "" // node-labeller, which needs root, does not ask for it
	}
	return writeArchive(file, []string{lower, upper},
		config{name: VirtLauncher + tag, user: user, entrypoint: []string{"/usr/bin/virt-launcher"}},
		config{name: NextVirtLauncher, user: user, entrypoint: []string{"/usr/bin/virt-launcher"}, version: "next"},
		config{name: VirtHandler + tag, entrypoint: []string{"/usr/bin/virt-handler"}},
		config{name: Importer, entrypoint: []string{"/usr/bin/cdi-importer"}},
		config{name: Cloner, entrypoint: []string{"/usr/bin/cloner_startup.sh"}},
		config{name: UploadServer, entrypoint: []string{"/usr/bin/cdi-uploadserver"}})
}

// left are the files of the packages that the images do not need: those of nodes only, which are a third of them, and those of the packages'
// management.
var left = []string{
	"./dev/*", "./proc/*", "./sys/*", "./var/cache/apt/*", "./var/lib/apt/lists/*",
	"./usr/bin/containerd*", "./usr/bin/ctr", "./usr/lib/cni", "./usr/sbin/runc", "./usr/bin/qemu-system-i386", "./usr/bin/perl*",
}

// archive writes a folder as a layer. tar(1) keeps the owners and the capabilities of files.
func archive(ctx context.Context, folder, layer string) error {
	arguments := []string{
		"--create", "--file=" + layer, "--directory=" + folder, "--numeric-owner", "--xattrs", "--xattrs-include=security.capability",
	}
	for _, pattern := range left {
		arguments = append(arguments, "--exclude="+pattern)
	}
	return process.Run(ctx, exec.CommandContext(ctx, "tar", append(arguments, ".")...))
}

// fillUpper fills the folder of the upper layer.
func fillUpper(ctx context.Context, built *binaries.Binaries, root, folder string) error {
	ours, err := fs.Sub(files, "files")
	if err != nil {
		return fmt.Errorf("find files: %w", err)
	}
	theirs := os.DirFS(built.LauncherFiles())
	programs := os.DirFS(built.NodePrograms)
	packages := os.DirFS(root)
	copies := []fileCopy{
		{from: ours, name: "etc/passwd", to: "etc/passwd", mode: 0o644},
		{from: ours, name: "etc/group", to: "etc/group", mode: 0o644},
		{from: ours, name: "usr/sbin/virtqemud", to: "usr/sbin/virtqemud", mode: 0o755},
		{from: packages, name: "usr/sbin/libvirtd", to: "usr/lib/lab/virtqemud", mode: 0o755},
		{from: theirs, name: "qemu.conf", to: "etc/libvirt/qemu.conf", mode: 0o644},
		{from: theirs, name: "virtqemud.conf", to: "etc/libvirt/virtqemud.conf", mode: 0o644},
		{from: theirs, name: "nsswitch.conf", to: "etc/nsswitch.conf", mode: 0o644},
		{from: theirs, name: "qemu", to: "etc/libvirt/hooks/qemu", mode: 0o755},
		{from: theirs, name: "node-labeller/node-labeller.sh", to: "usr/bin/node-labeller.sh", mode: 0o755},
	}
	for name, file := range built.CDIPrograms() {
		copies = append(copies, fileCopy{from: os.DirFS(filepath.Dir(file)), name: filepath.Base(file), to: "usr/bin/" + name, mode: 0o755})
	}
	for _, name := range built.NodeProgramNames() {
		copies = append(copies, fileCopy{from: programs, name: name, to: "usr/bin/" + name, mode: 0o755})
	}
	for _, c := range copies {
		if err := c.run(folder); err != nil {
			return err
		}
	}
	return adaptUpper(ctx, folder)
}

// sharedFilesystems tells libvirt that all nodes mount the volumes, without which it migrates no guest. It knows that of NFS and its like, but
// not of the folders of package volumes. KubeVirt only tells it for volumes that are not hot-plugged. libvirt reads the first setting, and
// ignores all folders behind one that does not exist.
const sharedFilesystems = `shared_filesystems = [ "/var/run/kubevirt/hotplug-disks", "/var/run/kubevirt-private" ]
`

// adaptUpper makes what is not a copy of a file.
func adaptUpper(ctx context.Context, folder string) error {
	for _, name := range []string{"home/qemu", "usr/share/OVMF", "init/usr/bin", "var/log/libvirt/qemu"} {
		if err := os.MkdirAll(filepath.Join(folder, name), 0o755); err != nil {
			return fmt.Errorf("create folder: %w", err)
		}
	}
	if err := appendTo(filepath.Join(folder, "etc/libvirt/qemu.conf"), sharedFilesystems); err != nil {
		return err
	}
	// virt-handler opens /proc/PID/root/var/run, in which Debian's absolute link would lead to its own files.
	if err := os.Symlink("../run", filepath.Join(folder, "var/run")); err != nil {
		return fmt.Errorf("link /var/run: %w", err)
	}
	for _, name := range []string{"etc/libvirt/hooks", "etc/libvirt/hooks/qemu"} {
		if err := os.Chown(filepath.Join(folder, name), qemu, qemu); err != nil {
			return fmt.Errorf("give the hooks to the user of virt-launcher: %w", err)
		}
	}
	monitor := filepath.Join(folder, "usr/bin/virt-launcher-monitor")
	return process.Run(ctx, exec.CommandContext(ctx, "setcap", "cap_net_bind_service=+ep", monitor))
}

// appendTo appends text to a file.
func appendTo(file, text string) error {
	f, err := os.OpenFile(filepath.Clean(file), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", filepath.Base(file), err)
	}
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("append to %s: %w", filepath.Base(file), err)
	}
	return nil
}

// fileCopy is a file to be copied into a folder.
type fileCopy struct {
	from     fs.FS
	name, to string
	mode     os.FileMode
}

func (c fileCopy) run(folder string) error {
	data, err := fs.ReadFile(c.from, c.name)
	if err != nil {
		return fmt.Errorf("read %s: %w", c.name, err)
	}
	target := filepath.Join(folder, c.to)
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return fmt.Errorf("create folder: %w", err)
	}
	if err := os.WriteFile(target, data, c.mode); err != nil {
		return fmt.Errorf("write %s: %w", c.to, err)
	}
	return nil
}

// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/hypervisor"
)

// diskFile is the file on a filesystem volume that KubeVirt attaches and that CDI writes.
const diskFile = "disk.img"

// volume returns the folder with the content of a PersistentVolume.
func (h *Hypervisor) volume(name string) string {
	return filepath.Join(h.options.Dir, "volumes", name)
}

// openDisks returns the files with the content of PersistentVolumes, by the names of a guest's volumes.
// A volume keeps its content when its guest ends. The first disk is the guest's root disk.
func (h *Hypervisor) openDisks(ctx context.Context, disks []hypervisor.Disk) (map[string]string, error) {
	files := map[string]string{}
	for i, disk := range disks {
		file := filepath.Join(h.volume(disk.PersistentVolume), diskFile)
		if err := h.fill(ctx, file, i == 0); err != nil {
			return nil, fmt.Errorf("disk %s: %w", disk.Volume, err)
		}
		if err := grow(file, disk.Size); err != nil {
			return nil, fmt.Errorf("disk %s: %w", disk.Volume, err)
		}
		files[disk.Volume] = file
	}
	return files, nil
}

// fill makes a volume that has no content: a root disk is a copy of the image, another disk is blank.
// An interrupted copy is not content.
func (h *Hypervisor) fill(ctx context.Context, file string, root bool) error {
	if _, err := os.Stat(file); err == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return fmt.Errorf("create volume: %w", err)
	}
	if !root {
		return os.WriteFile(file, nil, 0o600)
	}
	temporary := file + ".new"
	if err := runProgram(ctx, "cp", "--sparse=always", h.options.Image, temporary); err != nil {
		return errors.Join(fmt.Errorf("copy the guests' image: %w", err), os.RemoveAll(temporary))
	}
	if err := os.Chmod(temporary, 0o600); err != nil {
		return fmt.Errorf("protect the copy of the guests' image: %w", err)
	}
	return os.Rename(temporary, file)
}

// grow makes a file at least as large as its volume.
func grow(file string, size int64) error {
	info, err := os.Stat(file)
	if err != nil {
		return fmt.Errorf("read size: %w", err)
	}
	if info.Size() >= size {
		return nil
	}
	return os.Truncate(file, size)
}

// CloneVolume implements hypervisor.Volumes. A clone that exists stays as it is: a guest may use it.
func (h *Hypervisor) CloneVolume(ctx context.Context, from, to string) error {
	if _, err := os.Stat(h.volume(from)); errors.Is(err, os.ErrNotExist) {
		return nil // a simulated import has left no content
	}
	if _, err := os.Stat(h.volume(to)); err == nil {
		return nil
	}
	temporary := h.volume(to) + ".new"
	if err := os.RemoveAll(temporary); err != nil { // of an interrupted attempt
		return fmt.Errorf("clone volume %s: %w", from, err)
	}
	if err := runProgram(ctx, "cp", "--recursive", "--sparse=always", h.volume(from), temporary); err != nil {
		return fmt.Errorf("clone volume %s: %w", from, err)
	}
	return os.Rename(temporary, h.volume(to))
}

// DeleteVolume implements hypervisor.Volumes.
func (h *Hypervisor) DeleteVolume(name string) error {
	h.stopImporters(name)
	if err := os.RemoveAll(h.volume(name)); err != nil {
		return fmt.Errorf("delete volume %s: %w", name, err)
	}
	return nil
}

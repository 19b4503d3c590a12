// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// FreeDisk returns the free disk space at a folder that may not exist yet.
func FreeDisk(folder string) (uint64, error) {
	for {
		var stat syscall.Statfs_t
		err := syscall.Statfs(folder, &stat)
		if err == nil {
			return stat.Bavail * uint64(stat.Bsize), nil
		}
		if !errors.Is(err, os.ErrNotExist) || folder == filepath.Dir(folder) {
			return 0, fmt.Errorf("ask for free disk in %s: %w", folder, err)
		}
		folder = filepath.Dir(folder)
	}
}

// leastDisk is what a lab of two nodes needs: two times 0.6 GiB for their images, and 1.2 GiB for each of a few guests with a whole operating
// system. Nothing else stops the guests before the disk is full, and etcd with it.
const leastDisk = 8 << 30

// CheckDisk returns an error that wraps ErrMissing unless the disk of a folder, which may not exist yet, has room for real nodes.
func CheckDisk(folder string) error {
	free, err := FreeDisk(folder)
	if err != nil {
		return err
	}
	return checkDisk(folder, free)
}

func checkDisk(folder string, free uint64) error {
	if free >= leastDisk {
		return nil
	}
	return fmt.Errorf("%w: they need %d GiB of disk in %s, where %d MiB are free; make room, or set XDG_CACHE_HOME to a folder on a larger disk",
		ErrMissing, leastDisk>>30, folder, free>>20)
}

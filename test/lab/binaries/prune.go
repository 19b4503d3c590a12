// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package binaries

import (
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// keepFor is how long a set of binaries is kept after another version was built. Another checkout
// may still use it and would otherwise have to rebuild it.
const keepFor = 30 * 24 * time.Hour

// prune removes old build output of other versions. Without it every version change would leave
// hundreds of megabytes behind.
func (l layout) prune(now time.Time) error {
	for set, target := range l.targets {
		folders, err := filepath.Glob(filepath.Join(filepath.Dir(target), set+"-*"))
		if err != nil {
			return fmt.Errorf("list versions of %s: %w", set, err)
		}
		for _, folder := range folders {
			info, err := os.Stat(folder)
			if err != nil || folder == target || now.Sub(info.ModTime()) < keepFor {
				continue
			}
			if err := os.RemoveAll(folder); err != nil {
				return fmt.Errorf("remove an old version of %s: %w", set, err)
			}
		}
	}
	return nil
}

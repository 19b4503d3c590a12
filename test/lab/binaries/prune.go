package binaries

import (
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// keepFor is how long a set of binaries stays after another version was built: a checkout may still use it, and would only
// have to build it again.
const keepFor = 30 * 24 * time.Hour

// prune removes the finished folders of other versions that are old. Without it every change of a version would leave hundreds
// of megabytes behind.
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

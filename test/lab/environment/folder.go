// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/binaries"
)

// folder holds a lab's files: <path>/data, which is always removed with the lab, and <path>/logs.
//
// Two mechanisms clean up after a killed lab: a reaper process, which removes the data at the end
// of its standard input, a pipe that only the lab holds open; and the next lab, which sweeps
// folders whose owner file is not locked.
type folder struct {
	path   string
	owner  *os.File // locked while the lab lives
	reaper *exec.Cmd
	pipe   *os.File
}

func (f *folder) data() string { return filepath.Join(f.path, "data") }
func (f *folder) logs() string { return LogDir(f.path) }

const ownerFile = "owner"

// newFolder creates the lab's folder. An empty path selects a fresh folder under the user's cache. The reaper also removes the
// cgroups of the lab if it has some.
func newFolder(path string, cgroups bool) (_ *folder, err error) {
	if path == "" {
		if path, err = FreshDir(); err != nil {
			return nil, err
		}
	}
	f := &folder{path: path}
	for _, dir := range []string{f.data(), f.logs()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("create lab folder: %w", err)
		}
	}
	if f.owner, err = os.OpenFile(filepath.Join(path, ownerFile), os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return nil, fmt.Errorf("create owner file: %w", err)
	}
	if err := tryLock(f.owner); err != nil {
		return nil, errors.Join(fmt.Errorf("another lab uses %s: %w", path, err), f.owner.Close())
	}
	if err := f.startReaper(cgroups); err != nil {
		return nil, errors.Join(err, f.owner.Close())
	}
	return f, nil
}

// LogDir returns the log folder of a lab's folder.
func LogDir(dir string) string { return filepath.Join(dir, "logs") }

// FreshDir sweeps the folders of dead labs under the user's cache and creates a new one.
func FreshDir() (string, error) {
	parent, err := labsDir()
	if err != nil {
		return "", err
	}
	if err := sweep(parent, time.Now()); err != nil {
		return "", err
	}
	path, err := os.MkdirTemp(parent, "")
	if err != nil {
		return "", fmt.Errorf("create lab folder: %w", err)
	}
	return path, nil
}

// labsDir returns the parent of the folders that FreshDir sweeps.
func labsDir() (string, error) {
	cache, err := binaries.CacheDir()
	if err != nil {
		return "", fmt.Errorf("find a place for the lab's data: %w", err)
	}
	parent := filepath.Join(cache, "run")
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return "", fmt.Errorf("create folder for labs: %w", err)
	}
	return parent, nil
}

// keepLogsFor is how long the logs of a killed lab are kept.
const keepLogsFor = 24 * time.Hour

// sweep removes the data of killed labs, and all files of labs killed more than keepLogsFor ago.
func sweep(parent string, now time.Time) error {
	entries, err := os.ReadDir(parent)
	if err != nil {
		return fmt.Errorf("list labs: %w", err)
	}
	for _, entry := range entries {
		if err := sweepOne(filepath.Join(parent, entry.Name()), now); err != nil {
			return err
		}
	}
	return nil
}

func sweepOne(path string, now time.Time) error {
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil // another lab sweeps concurrently
	}
	if err != nil {
		return fmt.Errorf("look at %s: %w", path, err)
	}
	owner, err := os.Open(filepath.Join(path, ownerFile))
	switch {
	case errors.Is(err, os.ErrNotExist): // the lab is just being created, or was killed during creation
		if now.Sub(info.ModTime()) < time.Minute {
			return nil
		}
	case err != nil:
		return fmt.Errorf("open owner file: %w", err)
	default:
		defer owner.Close() //nolint:errcheck // opened only for its lock
		if tryLock(owner) != nil {
			return nil // the lab is alive
		}
	}
	data := filepath.Join(path, "data")
	if _, err := os.Stat(data); err == nil { // the reaper was killed as well
		if err := reaper(data, cgroupPrefix(path), cgroupRoot).Run(); err != nil {
			return fmt.Errorf("sweep %s: %w", data, err)
		}
	}
	if now.Sub(info.ModTime()) <= keepLogsFor {
		return nil
	}
	if err := os.RemoveAll(path); err != nil {
		return fmt.Errorf("sweep: %w", err)
	}
	return nil
}

func tryLock(f *os.File) error {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}

// reap waits for the end of its input, and removes the cgroups below its third argument whose names begin with the second, if that is not empty,
// with the processes in them, and the folder of its first. runc, killed while it starts a node, leaves one that waits for it forever.
// It retries for half a minute because processes, killed at the same moment, may still be in the cgroups, and etcd may still be writing. What
// is then left is for the next sweep.
const reap = `read -r _
for _ in $(seq 150); do
	[ -n "$2" ] || break
	for pid in $(find "$3" -path "*/$2*/cgroup.procs" -exec grep -hvx 0 {} + 2> /dev/null); do kill -9 "$pid" 2> /dev/null; done
	find "$3" -depth -type d -path "*/$2*" -exec rmdir {} + 2> /dev/null
	[ -n "$(find "$3" -type d -path "*/$2*" | head -n 1)" ] || break
	sleep 0.2
done
for _ in 1 2 3 4 5 6 7 8 9 10; do rm -rf -- "$1" && exit 0; sleep 0.2; done; exit 1`

// reaper runs reap. Not CommandContext: it must outlive the lab.
func reaper(data, cgroup, root string) *exec.Cmd {
	command := exec.Command("/bin/sh", "-c", reap, "lab-reaper", data, cgroup, root) //nolint:noctx // see above; our own path
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return command
}

// cgroup is the beginning of the names of the lab's cgroups.
func (f *folder) cgroup() string { return cgroupPrefix(f.path) }

const cgroupRoot = "/sys/fs/cgroup"

func cgroupPrefix(path string) string { return "lab-" + filepath.Base(path) + "-" }

func (f *folder) startReaper(cgroups bool) error {
	input, pipe, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("create pipe: %w", err)
	}
	defer input.Close() //nolint:errcheck // the reaper has its own copy
	cgroup := ""
	if cgroups {
		cgroup = f.cgroup()
	}
	f.reaper = reaper(f.data(), cgroup, cgroupRoot)
	f.reaper.Stdin = input
	if err := f.reaper.Start(); err != nil {
		return errors.Join(fmt.Errorf("start reaper: %w", err), pipe.Close())
	}
	f.pipe = pipe
	return nil
}

// remove makes the reaper remove the data, and removes the rest itself.
func (f *folder) remove(keepLogs bool) error {
	if f.pipe == nil {
		return nil // already removed
	}
	err := f.pipe.Close()
	f.pipe = nil
	if waited := f.reaper.Wait(); waited != nil {
		err = errors.Join(err, fmt.Errorf("remove %s: %w", f.data(), waited))
	}
	if keepLogs {
		return errors.Join(err, f.owner.Close())
	}
	err = errors.Join(err, os.RemoveAll(f.logs()), os.Remove(filepath.Join(f.path, ownerFile)), f.owner.Close())
	if removed := os.Remove(f.path); removed != nil && !errors.Is(removed, syscall.ENOTEMPTY) { // the caller's folder may contain other files
		err = errors.Join(err, removed)
	}
	return err
}

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

// folder is what a lab has on disk: <path>/data, which ends with the lab in any case, and <path>/logs.
//
// Two things see to it that nothing is left when the lab is killed: a reaper process that removes the data when its standard
// input, a pipe that only the lab holds open, ends; and the next lab, which sweeps folders whose owner file is not locked.
type folder struct {
	path   string
	owner  *os.File // locked as long as the lab lives
	reaper *exec.Cmd
	pipe   *os.File
}

func (f *folder) data() string { return filepath.Join(f.path, "data") }
func (f *folder) logs() string { return LogDir(f.path) }

const ownerFile = "owner"

// newFolder creates the lab's folder. An empty path stands for a fresh one under the user's cache.
func newFolder(path string) (_ *folder, err error) {
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
	if err := f.startReaper(); err != nil {
		return nil, errors.Join(err, f.owner.Close())
	}
	return f, nil
}

// LogDir returns the folder for logs in the folder of a lab.
func LogDir(dir string) string { return filepath.Join(dir, "logs") }

// FreshDir removes what dead labs left under the user's cache, and makes a new folder there.
func FreshDir() (string, error) {
	cache, err := binaries.CacheDir()
	if err != nil {
		return "", fmt.Errorf("find a place for the lab's data: %w", err)
	}
	parent := filepath.Join(cache, "run")
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return "", fmt.Errorf("create folder for labs: %w", err)
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

// keepLogsFor is how long the logs of a killed lab stay.
const keepLogsFor = 24 * time.Hour

// sweep removes the data of labs that were killed, and everything of those that were killed long ago.
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
		return nil // another lab sweeps as well
	}
	if err != nil {
		return fmt.Errorf("look at %s: %w", path, err)
	}
	owner, err := os.Open(filepath.Join(path, ownerFile))
	switch {
	case errors.Is(err, os.ErrNotExist): // it is just being created, or was left half made
		if now.Sub(info.ModTime()) < time.Minute {
			return nil
		}
	case err != nil:
		return fmt.Errorf("open owner file: %w", err)
	default:
		defer owner.Close() //nolint:errcheck // opened for its lock
		if tryLock(owner) != nil {
			return nil // its lab lives
		}
	}
	stale := filepath.Join(path, "data")
	if now.Sub(info.ModTime()) > keepLogsFor {
		stale = path
	}
	if err := os.RemoveAll(stale); err != nil {
		return fmt.Errorf("sweep: %w", err)
	}
	return nil
}

func tryLock(f *os.File) error {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}

// reap waits for the end of its input and removes a folder. It tries a few times: etcd, killed at the same moment, may still be
// writing.
const reap = `read -r _; for _ in 1 2 3 4 5 6 7 8 9 10; do rm -rf -- "$1" && exit 0; sleep 0.2; done; exit 1`

func (f *folder) startReaper() error {
	input, pipe, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("create pipe: %w", err)
	}
	defer input.Close() //nolint:errcheck // the reaper has its own copy
	// Not CommandContext: its purpose is to outlive the lab.
	f.reaper = exec.Command("/bin/sh", "-c", reap, "lab-reaper", f.data()) //nolint:noctx // see above; our own path
	f.reaper.Stdin = input
	f.reaper.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := f.reaper.Start(); err != nil {
		return errors.Join(fmt.Errorf("start reaper: %w", err), pipe.Close())
	}
	f.pipe = pipe
	return nil
}

// remove has the reaper remove the data, and removes the rest.
func (f *folder) remove(keepLogs bool) error {
	if f.pipe == nil {
		return nil // done before
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
	if removed := os.Remove(f.path); removed != nil && !errors.Is(removed, syscall.ENOTEMPTY) { // the caller's folder may hold more
		err = errors.Join(err, removed)
	}
	return err
}

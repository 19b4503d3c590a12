// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/binaries"
)

// state is the description that a running lab writes to a file under the user's cache.
type state struct {
	Name               string    `json:"name"`
	PID                int       `json:"pid"`
	ParentPID          int       `json:"parentPID"` // of a lab with real nodes: the process that waits for it outside of its namespaces
	Ready              bool      `json:"ready"`
	StartedAt          time.Time `json:"startedAt"`
	ProviderKubeconfig string    `json:"providerKubeconfig,omitempty"`
	ControlKubeconfig  string    `json:"controlKubeconfig,omitempty"`
	TargetKubeconfig   string    `json:"targetKubeconfig,omitempty"` // equals controlKubeconfig without --gardener
	Kubectl            string    `json:"kubectl,omitempty"`
	KubernetesVersion  string    `json:"kubernetesVersion,omitempty"` // of all control planes
	KubeVirtVersion    string    `json:"kubeVirtVersion,omitempty"`
	CDIVersion         string    `json:"cdiVersion,omitempty"`
	// The following are programs that tests run; the last four only with --gardener.
	PromQL                   string            `json:"promQL,omitempty"`
	MachineControllerManager string            `json:"machineControllerManager,omitempty"`
	ResourceManager          string            `json:"resourceManager,omitempty"`
	GardenerAPIServer        string            `json:"gardenerAPIServer,omitempty"`
	CSIDriver                string            `json:"csiDriver,omitempty"`
	Sidecars                 map[string]string `json:"sidecars,omitempty"`    // by the ends of their images
	ControlEtcd              string            `json:"controlEtcd,omitempty"` // the address of the control cluster's etcd
	// The following only with --guest-image: the file with the disk image of workers that join, its container disk, and the file with their
	// user data.
	GuestImage    string         `json:"guestImage,omitempty"`
	GuestDisk     string         `json:"guestDisk,omitempty"`
	GuestUserData string         `json:"guestUserData,omitempty"`
	LogDir        string         `json:"logDir,omitempty"`
	Shell         string         `json:"shell,omitempty"` // shell file to source; only with a sidecar
	Shoot         *shootState    `json:"shoot,omitempty"`
	Processes     []processState `json:"processes,omitempty"`
	Restarts      int            `json:"restarts,omitempty"`     // of the sidecar
	RestartError  string         `json:"restartError,omitempty"` // of the last restart
}

type shootState struct {
	Name               string `json:"name"`
	Namespace          string `json:"namespace"`
	ProviderNamespace  string `json:"providerNamespace"`
	ProviderKubeconfig string `json:"providerKubeconfig"` // with the driver's permissions, for the driver: it works inside the lab
	MCMKubeconfig      string `json:"mcmKubeconfig"`
	SidecarKubeconfig  string `json:"sidecarKubeconfig"`
}

type processState struct {
	Name    string `json:"name"`
	PID     int    `json:"pid"`
	Running bool   `json:"running"`
	Log     string `json:"log"`
}

var (
	errNotRunning = errors.New("not running")
	errRunning    = errors.New("already running")
)

// store is the location of one lab's state. The running lab holds a lock on a file next to it,
// which the kernel releases when the lab dies. A state without a lock is stale, even if another
// process now has the same PID.
type store struct{ folder, name string }

func newStore(name string) (store, error) {
	cache, err := binaries.CacheDir()
	if err != nil {
		return store{}, fmt.Errorf("find the lab's state: %w", err)
	}
	s := store{folder: filepath.Join(cache, "state"), name: name}
	if err := os.MkdirAll(s.folder, 0o700); err != nil {
		return store{}, fmt.Errorf("create folder for states: %w", err)
	}
	return s, nil
}

func (s store) file() string    { return filepath.Join(s.folder, s.name+".json") }
func (s store) logFile() string { return filepath.Join(s.folder, s.name+".log") }

// claim makes this process the lab of that name until release is called. It retries briefly,
// because readers of the state also hold the lock for an instant.
func (s store) claim(ctx context.Context) (release func(), err error) {
	const every, atMost = 20 * time.Millisecond, time.Second
	polled := wait.PollUntilContextTimeout(ctx, every, atMost, true, func(context.Context) (bool, error) {
		release, err = s.lock()
		return !errors.Is(err, errRunning), nil
	})
	return release, cmp.Or(err, polled)
}

// lock takes the lock if it is free. Releasing it removes the file, so that a finished
// lab leaves nothing behind.
func (s store) lock() (release func(), err error) {
	path := filepath.Join(s.folder, s.name+".lock")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, errors.Join(fmt.Errorf("lab %q: %w", s.name, errRunning), f.Close())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("take lock: %w", err), f.Close())
	}
	if !isStill(f, path) { // just released by its holder: this locks a file that is no longer at path
		return nil, errors.Join(fmt.Errorf("lab %q: %w", s.name, errRunning), f.Close())
	}
	return func() { _ = errors.Join(os.Remove(path), f.Close()) }, nil // Close releases the lock
}

// isStill reports whether an open file is still the file at path.
func isStill(f *os.File, path string) bool {
	opened, err := f.Stat()
	if err != nil {
		return false
	}
	found, err := os.Stat(path)
	return err == nil && os.SameFile(opened, found)
}

// load returns the state of the running lab, or errNotRunning.
func (s store) load() (*state, error) {
	release, err := s.lock()
	if err == nil {
		release()
		return nil, fmt.Errorf("lab %q: %w", s.name, errNotRunning)
	}
	if !errors.Is(err, errRunning) {
		return nil, err
	}
	data, err := os.ReadFile(s.file())
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("lab %q: %w", s.name, errNotRunning)
	}
	if err != nil {
		return nil, fmt.Errorf("read state: %w", err)
	}
	var st state
	if err := json.Unmarshal(data, &st); err != nil {
		return nil, fmt.Errorf("decode state: %w", err)
	}
	if !runs(st.PID) { // a new lab has taken over the lock of a killed one, but has not written its state yet
		return nil, fmt.Errorf("lab %q: %w", s.name, errNotRunning)
	}
	for i := range st.Processes {
		st.Processes[i].Running = runs(st.Processes[i].PID)
	}
	return &st, nil
}

// save replaces the state atomically, so that readers never see a partial state.
func (s store) save(st *state) error {
	data, err := json.MarshalIndent(st, "", "  ")
	if err != nil {
		return fmt.Errorf("encode state: %w", err)
	}
	temporary := s.file() + ".new"
	if err := os.WriteFile(temporary, data, 0o600); err != nil {
		return fmt.Errorf("write state: %w", err)
	}
	if err := os.Rename(temporary, s.file()); err != nil {
		return fmt.Errorf("put state into place: %w", err)
	}
	return nil
}

func (s store) remove() error {
	for _, file := range []string{s.file(), s.shellFile()} {
		if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("remove state: %w", err)
		}
	}
	return nil
}

// clean removes the files of a lab that no longer runs: its log, and its state if it was killed.
func (s store) clean() error {
	if err := os.Remove(s.logFile()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove log: %w", err)
	}
	return s.remove()
}

func runs(pid int) bool {
	err := syscall.Kill(pid, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}

// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// Isolate moves the program into network and mount namespaces of its own, in which only loopback is up. It starts the program
// again, and only returns there: the first process waits, passes signals on, and exits with the code of the second. Call it at
// the beginning of main or TestMain, but after what needs the network of the machine.
func Isolate() error {
	if os.Getenv(isolatedVariable) != "" {
		return setUp()
	}
	code, err := runIsolated()
	if err != nil {
		return err
	}
	os.Exit(code)
	return nil
}

func runIsolated() (code int, err error) {
	self, err := os.Executable()
	if err != nil {
		return 0, fmt.Errorf("find the own program: %w", err)
	}
	entrance, err := openEntrance()
	if err != nil {
		return 0, err
	}
	defer entrance.Close() //nolint:errcheck // the child has its own copy
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	runtime.LockOSThread() // whose end would kill the child
	defer runtime.UnlockOSThread()
	command := exec.Command(self, os.Args[1:]...) //nolint:noctx // ends with this process; our own program
	command.Env = append(os.Environ(), isolatedVariable+"=1")
	command.Stdin = os.Stdin
	command.Stdout = os.Stdout
	command.Stderr = os.Stderr
	command.ExtraFiles = []*os.File{entrance} // number entranceFile
	command.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS,
		Pdeathsig:  syscall.SIGKILL,
	}
	if hasCgroup2() {
		command.SysProcAttr.Cloneflags |= syscall.CLONE_NEWCGROUP
	}
	if err := command.Start(); err != nil {
		return 0, fmt.Errorf("start the lab in namespaces of its own, which needs root: %w", err)
	}
	go func() {
		for s := range signals {
			if s == syscall.SIGTERM { // ctrl-C in a terminal reaches the child anyway, and must not count twice
				_ = command.Process.Signal(s) // fails if it has already ended
			}
		}
	}()
	err = command.Wait()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return max(1, exit.ExitCode()), nil // -1 if a signal has ended it
	}
	return 0, err
}

// setUp completes the namespaces of this process.
func setUp() error {
	if err := leaveEnvironment(); err != nil {
		return err
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make the mounts of the lab private: %w", err)
	}
	if hasCgroup2() {
		if err := moveIntoGroup(); err != nil {
			return fmt.Errorf("make room for the cgroups of nodes: %w", err)
		}
	}
	if err := startLoopback(); err != nil {
		return err
	}
	isolated = true
	return nil
}

// Share lets this process make nodes in the namespaces of its parent, which has called Isolate: in a network without other interfaces.
func Share() error {
	interfaces, err := net.Interfaces()
	if err != nil {
		return fmt.Errorf("list network interfaces: %w", err)
	}
	for _, found := range interfaces {
		if found.Flags&net.FlagLoopback == 0 {
			return fmt.Errorf("this process has the interface %s: its parent has not called node.Isolate", found.Name)
		}
	}
	isolated = true
	return nil
}

// leaveEnvironment returns an error unless runIsolated has started this process, whose own programs must not take themselves for isolated.
func leaveEnvironment() error {
	if err := os.Unsetenv(isolatedVariable); err != nil {
		return fmt.Errorf("unset %s: %w", isolatedVariable, err)
	}
	own, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		return fmt.Errorf("find the own network namespace: %w", err)
	}
	parent, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", os.Getppid()))
	if err != nil {
		return fmt.Errorf("find the network namespace of the parent process: %w", err)
	}
	if own == parent {
		return fmt.Errorf("%s is set, but this process is in the network namespace of its parent: unset it", isolatedVariable)
	}
	unix.CloseOnExec(entranceFile)
	return nil
}

func startLoopback() error {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open socket: %w", err)
	}
	defer unix.Close(socket) //nolint:errcheck // nothing was written
	loopback, err := unix.NewIfreq("lo")
	if err != nil {
		return fmt.Errorf("name loopback: %w", err)
	}
	loopback.SetUint16(unix.IFF_UP)
	if err := unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, loopback); err != nil {
		return fmt.Errorf("start loopback: %w", err)
	}
	return nil
}

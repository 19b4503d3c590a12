// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/environment"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/node"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/process"
)

// controllers are the processes that the command line adds to the two clusters:
// machine-controller-manager, the sidecar, and the driver if it runs as a separate process.
type controllers struct {
	lab     *environment.Lab
	request request
	out     io.Writer
	shoot   *environment.Shoot
	socket  string // folder of the driver's socket; empty if there is none
	// entrance leads into an isolated lab; nil if it is not isolated.
	entrance *node.Entrance
	// ours are the sidecar and the driver, which restart replaces.
	ours []*process.Process
	// replaced are the processes that earlier restarts stopped.
	replaced []*process.Process
}

// start adds what was requested on the command line: what guests need, the shoot and its processes.
func (c *controllers) start(ctx context.Context, st *state) (err error) {
	if err := serveGuests(ctx, c.lab, st); err != nil {
		return err
	}
	if c.request.shoot == "" {
		return nil
	}
	if c.shoot, err = c.lab.AddShoot(ctx, c.request.shoot); err != nil {
		return err
	}
	if err := c.lab.LimitShoot(ctx, c.shoot); err != nil {
		return err
	}
	st.Shoot = &shootState{
		Name:               c.shoot.Name,
		Namespace:          c.shoot.Namespace,
		ProviderNamespace:  c.shoot.ProviderNamespace,
		ProviderKubeconfig: c.shoot.ProviderKubeconfigFile,
		MCMKubeconfig:      c.shoot.MCMKubeconfig,
		SidecarKubeconfig:  c.shoot.SidecarKubeconfig,
	}
	fmt.Fprintln(c.out, "starting machine-controller-manager for shoot", c.request.shoot)
	if _, err := c.lab.StartMachineControllerManager(ctx, c.shoot); err != nil {
		return err
	}
	if c.request.sidecar == "" {
		return nil
	}
	return c.startOurs(ctx)
}

// startOurs starts the sidecar, after the driver if that runs as a separate process.
func (c *controllers) startOurs(ctx context.Context) error {
	args := strings.Fields(c.request.sidecarArgs)
	if c.request.driver != "" {
		endpoint, err := c.startDriver(ctx)
		if err != nil {
			return err
		}
		args = append(args, "--driver-endpoint="+endpoint)
	}
	fmt.Fprintln(c.out, "starting", c.request.sidecar)
	p, err := c.lab.StartSidecar(ctx, c.shoot, c.request.sidecar, args...)
	if err != nil {
		return err
	}
	c.ours = append(c.ours, p)
	return nil
}

func (c *controllers) startDriver(ctx context.Context) (endpoint string, err error) {
	if c.socket == "" { // The lab's own folder may be too deep for a socket path.
		if c.socket, err = os.MkdirTemp("", "driver-"); err != nil {
			return "", fmt.Errorf("create folder for the driver's socket: %w", err)
		}
	}
	endpoint = "unix://" + filepath.Join(c.socket, "driver.sock")
	fmt.Fprintln(c.out, "starting", c.request.driver)
	p, err := c.lab.StartDriver(ctx, c.shoot, c.request.driver, endpoint, strings.Fields(c.request.driverArgs)...)
	if err != nil {
		return "", err
	}
	c.ours = append(c.ours, p)
	return endpoint, nil
}

func (c *controllers) removeSocket() {
	if c.socket != "" {
		_ = os.RemoveAll(c.socket) // contains at most the socket
	}
}

// restart stops the sidecar and the driver and starts their binaries, possibly rebuilt, again.
func (c *controllers) restart(ctx context.Context, s store, st *state) error {
	fmt.Fprintln(c.out, "restarting", c.request.sidecar)
	c.replaced = append(c.replaced, c.ours...)
	failed := c.stopOurs(ctx)
	if failed == nil {
		starting, cancel := context.WithTimeout(ctx, restartTimeout)
		defer cancel()
		failed = c.startOurs(starting)
	}
	st.Restarts++
	st.RestartError = ""
	if failed != nil {
		st.RestartError = failed.Error()
	}
	return errors.Join(failed, c.publish(s, st))
}

func (c *controllers) stopOurs(ctx context.Context) error {
	stopping, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	var failed error
	for _, p := range slices.Backward(c.ours) {
		failed = errors.Join(failed, p.Stop(stopping))
	}
	c.ours = nil
	return failed
}

// publish describes the lab in its state file and in the file with shell commands.
func (c *controllers) publish(s store, st *state) error {
	built := c.lab.Binaries
	st.Ready = true
	st.Kubectl = built.Kubectl
	st.KubernetesVersion = string(built.KubernetesVersion)
	st.KubeVirtVersion = string(built.KubeVirtVersion)
	st.CDIVersion = string(built.CDIVersion)
	st.ProviderKubeconfig = c.lab.Provider.AdminKubeconfig
	st.ControlKubeconfig = c.lab.Control.AdminKubeconfig
	st.TargetKubeconfig = c.lab.Target.AdminKubeconfig
	if err := st.enter(c.entrance); err != nil {
		return err
	}
	st.PromQL = c.lab.Binaries.PromQL
	st.MachineControllerManager = c.lab.Binaries.MCM
	st.ResourceManager = c.lab.Binaries.GardenerResourceManager
	st.GardenerAPIServer = c.lab.Binaries.GardenerAPIServer
	st.ControlEtcd = c.lab.Control.EtcdURL
	st.CSIDriver = built.CSIDriver
	st.Sidecars = built.Sidecars
	st.Processes = nil
	for _, p := range c.current() {
		st.Processes = append(st.Processes, processState{Name: p.Name(), PID: p.PID(), Running: true, Log: p.LogFile()})
	}
	if c.request.sidecar != "" {
		if err := s.saveShell(st, filepath.Join(filepath.Dir(c.request.sidecar), "mcm-kubevirt")); err != nil {
			return err
		}
	}
	return s.save(st)
}

// current returns all processes except those that were replaced.
func (c *controllers) current() []*process.Process {
	return slices.DeleteFunc(c.lab.Processes(), func(p *process.Process) bool { return slices.Contains(c.replaced, p) })
}

// watch reports processes that exit by themselves, and returns when ctx is done. The rest of the
// lab keeps running, because the process that exited is often the sidecar under development. A
// restart signal makes watch call restart.
func (c *controllers) watch(ctx context.Context, restarts <-chan os.Signal, restart func() error) {
	ended := make(chan *process.Process)
	watchAll(ctx, c.current(), ended)
	for {
		select {
		case p := <-ended:
			if !slices.Contains(c.replaced, p) {
				fmt.Fprintln(c.out, p.Err())
			}
		case <-restarts:
			if err := restart(); err != nil {
				fmt.Fprintln(c.out, "restart:", err)
			}
			watchAll(ctx, c.ours, ended)
		case <-ctx.Done():
			return
		}
	}
}

// watchAll sends each process that exits before ctx is done.
func watchAll(ctx context.Context, processes []*process.Process, ended chan<- *process.Process) {
	for _, p := range processes {
		go func() {
			select {
			case <-p.Exited():
			case <-ctx.Done():
				return
			}
			select {
			case ended <- p:
			case <-ctx.Done():
			}
		}()
	}
}

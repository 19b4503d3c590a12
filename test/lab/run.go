package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/environment"
)

const stopTimeout = 30 * time.Second

// run is a lab from start to ctrl-C.
func run(ctx context.Context, r request, out io.Writer) (err error) {
	s, err := newStore(r.name)
	if err != nil {
		return err
	}
	release, err := s.claim(ctx)
	if err != nil {
		return err
	}
	defer release()
	st := &state{Name: r.name, PID: os.Getpid(), StartedAt: time.Now().UTC()}
	if err := s.save(st); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.remove()) }()
	lab, err := environment.Start(ctx, environment.Options{Progress: out, KeepLogs: r.keepLogs})
	if err != nil {
		return err
	}
	defer func() {
		lab.KeepLogs = lab.KeepLogs || (err != nil && ctx.Err() == nil)
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		err = errors.Join(err, lab.Stop(stopping))
	}()
	if err := addShoot(ctx, lab, r, st, out); err != nil {
		return fmt.Errorf("%w (logs in %s)", err, lab.LogDir)
	}
	describeLab(lab, st)
	if err := s.save(st); err != nil {
		return err
	}
	describe(out, st)
	watch(ctx, lab, out)
	fmt.Fprintln(out, "stopping the lab")
	return nil
}

// addShoot adds what the command line asks for beyond the two clusters.
func addShoot(ctx context.Context, lab *environment.Lab, r request, st *state, out io.Writer) error {
	if r.shoot == "" {
		return nil
	}
	shoot, err := lab.AddShoot(ctx, r.shoot)
	if err != nil {
		return err
	}
	if err := lab.LimitShoot(ctx, shoot); err != nil {
		return err
	}
	st.Shoot = &shootState{
		Name: shoot.Name, Namespace: shoot.Namespace, ProviderNamespace: shoot.ProviderNamespace,
		ProviderKubeconfig: shoot.ProviderKubeconfigFile, MCMKubeconfig: shoot.MCMKubeconfig, SidecarKubeconfig: shoot.SidecarKubeconfig,
	}
	fmt.Fprintln(out, "starting machine-controller-manager for shoot", r.shoot)
	if _, err := lab.StartMachineControllerManager(ctx, shoot); err != nil {
		return err
	}
	if r.sidecar == "" {
		return nil
	}
	return startSidecar(ctx, lab, shoot, r, out)
}

// startSidecar starts the sidecar, and before it the driver, if that is to be a process of its own.
func startSidecar(ctx context.Context, lab *environment.Lab, shoot *environment.Shoot, r request, out io.Writer) error {
	args := strings.Fields(r.sidecarArgs)
	if r.driver != "" {
		// The lab's own folder may be too deep for the path of a socket.
		folder, err := os.MkdirTemp("", "driver-")
		if err != nil {
			return fmt.Errorf("create folder for the driver's socket: %w", err)
		}
		context.AfterFunc(ctx, func() { _ = os.RemoveAll(folder) }) // it holds a socket at most
		endpoint := "unix://" + filepath.Join(folder, "driver.sock")
		fmt.Fprintln(out, "starting", r.driver)
		if _, err := lab.StartDriver(ctx, shoot, r.driver, endpoint, strings.Fields(r.driverArgs)...); err != nil {
			return err
		}
		args = append(args, "--driver-endpoint="+endpoint)
	}
	fmt.Fprintln(out, "starting", r.sidecar)
	_, err := lab.StartSidecar(ctx, shoot, r.sidecar, args...)
	return err
}

func describeLab(lab *environment.Lab, st *state) {
	st.Ready, st.LogDir, st.Kubectl = true, lab.LogDir, lab.Binaries.Kubectl
	st.ProviderKubeconfig, st.ControlKubeconfig = lab.Provider.AdminKubeconfig, lab.Control.AdminKubeconfig
	for _, p := range lab.Processes() {
		st.Processes = append(st.Processes, processState{Name: p.Name(), PID: p.PID(), Running: true, Log: p.LogFile()})
	}
}

// watch says when a process ends by itself, and returns when ctx ends. The rest of the lab goes on: what ended is often the
// sidecar that somebody is working on.
func watch(ctx context.Context, lab *environment.Lab, out io.Writer) {
	ended := make(chan error)
	for _, p := range lab.Processes() {
		go func() {
			select {
			case <-p.Exited():
			case <-ctx.Done():
				return
			}
			select {
			case ended <- p.Err():
			case <-ctx.Done():
			}
		}()
	}
	for {
		select {
		case err := <-ended:
			fmt.Fprintln(out, err)
		case <-ctx.Done():
			return
		}
	}
}

// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/environment"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/node"
)

const stopTimeout = 30 * time.Second

// run starts a lab and stops it on ctrl-C.
func run(ctx context.Context, r request, out io.Writer) (err error) {
	entrance, err := r.isolate(ctx, out)
	if err != nil {
		return err
	}
	restarts := make(chan os.Signal, 1)
	signal.Notify(restarts, restartSignal)
	defer signal.Stop(restarts)
	s, err := newStore(r.name)
	if err != nil {
		return err
	}
	release, err := s.claim(ctx)
	if err != nil {
		return err
	}
	defer release()
	st, dir, err := r.initial(ctx, out)
	if err != nil {
		return err
	}
	if err := s.save(st); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.remove()) }()
	options := r.options(out)
	options.Dir = dir
	lab, err := environment.Start(ctx, options)
	if err != nil {
		_ = os.Remove(dir) // fails if dir contains logs, which stay
		return err
	}
	defer func() {
		lab.KeepLogs = lab.KeepLogs || (err != nil && ctx.Err() == nil)
		err = errors.Join(err, stop(ctx, lab))
	}()
	c := &controllers{lab: lab, request: r, out: out, entrance: entrance}
	defer c.removeSocket()
	if err := c.start(ctx, st); err != nil {
		return fmt.Errorf("%w (logs in %s)", err, lab.LogDir)
	}
	if err := c.publish(s, st); err != nil {
		return err
	}
	describe(out, st)
	c.watch(ctx, restarts, func() error { return c.restart(ctx, s, st) })
	fmt.Fprintln(out, "stopping the lab")
	return nil
}

// initial returns the state of a lab that starts, and its folder.
func (r *request) initial(ctx context.Context, out io.Writer) (st *state, dir string, err error) {
	if dir, err = environment.FreshDir(); err != nil {
		return nil, "", err
	}
	st = &state{Name: r.name, PID: os.Getpid(), ParentPID: os.Getppid(), StartedAt: time.Now().UTC(), LogDir: environment.LogDir(dir)}
	if r.guestImage {
		st.GuestImage, err = environment.EnsureGuestImage(ctx, out)
	}
	return st, dir, err
}

// serveGuests serves what machines need to become workers that join, if that was requested.
func serveGuests(ctx context.Context, lab *environment.Lab, st *state) error {
	if st.GuestImage == "" {
		return nil
	}
	if err := lab.ServeGuestDisk(ctx, st.GuestImage); err != nil {
		return err
	}
	userData, err := lab.GuestUserData()
	if err != nil {
		return err
	}
	st.GuestDisk = environment.GuestDisk
	st.GuestUserData = filepath.Join(lab.LogDir, "guest-userdata.yaml")
	if err := os.WriteFile(st.GuestUserData, []byte(userData), 0o600); err != nil {
		return fmt.Errorf("write the user data of guests: %w", err)
	}
	return nil
}

// stop stops a lab within its timeout.
func stop(ctx context.Context, lab *environment.Lab) error {
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	return lab.Stop(stopping)
}

// isolate builds the programs of a lab with real nodes, which needs the network of the machine, and moves the process into namespaces of
// its own. The entrance is nil if the nodes are simulated.
func (r *request) isolate(ctx context.Context, out io.Writer) (*node.Entrance, error) {
	if r.nodes != realOnes {
		return nil, nil //nolint:nilnil // see above
	}
	if r.isolated { // The caller needs no entrance.
		return nil, node.Share()
	}
	if err := build(ctx, *r, out); err != nil {
		return nil, err
	}
	if err := node.Isolate(); err != nil {
		return nil, err
	}
	return node.ServeEntrance()
}

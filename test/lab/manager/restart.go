// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// restartSignal asks a running lab to restart the sidecar.
	restartSignal  = syscall.SIGUSR1
	restartTimeout = time.Minute
)

// restart makes a running lab restart the sidecar and the driver, and
// returns when they are healthy.
func restart(ctx context.Context, r request, out io.Writer) error {
	s, before, err := restartable(r)
	if err != nil {
		return err
	}
	if err := syscall.Kill(before.PID, restartSignal); err != nil {
		return fmt.Errorf("ask lab %q (pid %d) for a restart: %w", before.Name, before.PID, err)
	}
	var after *state
	err = wait.PollUntilContextTimeout(ctx, pollEvery, stopTimeout+2*restartTimeout, true, func(context.Context) (bool, error) {
		after, err = s.load()
		return err == nil && after.Restarts > before.Restarts, err
	})
	switch {
	case err != nil:
		return fmt.Errorf("wait for lab %q (pid %d) to restart the sidecar: %w", before.Name, before.PID, err)
	case after.RestartError != "":
		return errors.New("restart the sidecar: " + after.RestartError)
	}
	listRestarted(out, after)
	return nil
}

// restartable returns the store and state of a lab that is ready and has a sidecar.
func restartable(r request) (s store, before *state, err error) {
	if s, err = newStore(r.name); err != nil {
		return s, nil, err
	}
	before, err = s.load()
	switch {
	case err != nil:
		return s, nil, err
	case !before.Ready:
		return s, nil, fmt.Errorf("lab %q is still starting; try again when it is ready", before.Name)
	case before.Shell == "":
		return s, nil, fmt.Errorf("lab %q has no sidecar; start it with --shoot and --sidecar", before.Name)
	default:
		return s, before, nil
	}
}

func listRestarted(out io.Writer, after *state) {
	for _, p := range after.Processes {
		if strings.HasSuffix(p.Name, "-driver") || strings.HasSuffix(p.Name, "-machine-controller") {
			fmt.Fprintf(out, "restarted %s (pid %d); its log is %s\n", p.Name, p.PID, p.Log)
		}
	}
}

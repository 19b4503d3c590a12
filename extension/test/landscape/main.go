// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Command landscape runs a Gardener landscape without the extension for KubeVirt on this machine, for an
// operator who installs the extension by hand: `make landscape`.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/test/seed"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/screen"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGHUP, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // A second ctrl-C ends the program at once.

	err := run(ctx, screen.New(os.Stdout), os.Args[1:])

	stop()

	if err != nil {
		fmt.Fprintln(os.Stderr, "landscape:", err)
		os.Exit(1)
	}
}

var errUsage = errors.New("usage: landscape FILE HELM: the file with commands for a shell, and the command of Helm for it")

// run runs the landscape until ctx ends.
func run(ctx context.Context, out *screen.Screen, args []string) (failed error) {
	const arguments = 2
	if len(args) != arguments {
		return errUsage
	}

	out.Line("Build and start: a garden, a seed, a provider cluster with KubeVirt and CDI. The extension is not installed.")

	s, err := seed.Start(ctx, &screen.Lines{Screen: out}, seed.WithoutExtension(), seed.ReportErrors(reporter(out, "kubelet")))
	if err != nil {
		return err
	}

	l := &landscape{out: out, seed: s, references: newReferences(s.Garden)}

	defer func() { failed = errors.Join(failed, l.stop(ctx, failed != nil && ctx.Err() == nil)) }()

	if l.installations, err = newInstallations(s); err != nil {
		return err
	}

	if err := l.prepare(ctx); err != nil {
		return err
	}

	remove, err := writeShell(args[0], s.Kubectl(), args[1], s.Kubeconfigs())
	if err != nil {
		return err
	}

	defer func() { failed = errors.Join(failed, remove()) }()

	l.explain(args[0])
	l.run(ctx)

	return nil
}

// stop ends all processes, although ctx has ended.
func (l *landscape) stop(ctx context.Context, keepLogs bool) error {
	const atMost = time.Minute

	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), atMost)
	defer cancel()

	l.out.Line("\nStopping the landscape ...")

	failed := l.stopPods(ctx)
	keepLogs = keepLogs || failed != nil

	failed = errors.Join(failed, l.seed.Stop(ctx, keepLogs))
	if failed != nil || keepLogs {
		l.out.Line("Logs: %s", l.seed.Folder)

		return failed
	}

	l.out.Line("The landscape is stopped; all its processes and data are gone.")

	return nil
}

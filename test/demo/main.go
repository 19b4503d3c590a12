// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Command demo shows the driver at work, from nothing to worker machines and back: it builds the
// driver and the lab, lets machine-controller-manager and the driver turn MachineDeployments into
// virtual machines, scales them, deletes them, and checks that nothing is left. `make demo` runs
// it; it succeeds only if it has observed everything that it announces.
//
// It uses only kubectl, as a user would, and depends on almost nothing, so that the
// first output appears before any dependency is downloaded.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/screen"
)

// contents returns the chapters in order.
func contents(o options) []chapter {
	if o.realNodes {
		return nodesContents(o.keep)
	}
	all := []chapter{
		{title: "Check the requirements", play: (*demo).checkRequirements},
		{title: "Build the driver", play: (*demo).buildDriver},
		{title: "Render the objects of a machine", play: (*demo).render},
		{title: "Start the lab", play: (*demo).startLab},
		{title: "Create three workers in two zones", play: (*demo).createWorkers},
		{title: "Scale up to five", play: (*demo).scaleUp},
		{title: "Scale down to one", play: (*demo).scaleDown},
		{title: "Try a zone without nodes", play: (*demo).useEmptyZone},
		{title: "Delete everything", play: (*demo).deleteAll},
		{title: "Check that nothing is left", play: (*demo).checkLeftovers},
	}
	if o.keep {
		all = append(all, chapter{title: "Create three workers to explore", play: (*demo).createWorkers})
	}
	return all
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGHUP, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second ctrl-C ends the demo at once, and the kernel then ends the lab
	o, err := readOptions(os.Getenv("KEEP"), os.Getenv("DRIVER"), os.Getenv("NODES"))
	if err == nil {
		err = run(ctx, o)
	}
	switch {
	case errors.Is(err, context.Canceled):
		fmt.Fprintln(os.Stderr, "\nThe demo was interrupted.")
		os.Exit(130)
	case err != nil:
		fmt.Fprintf(os.Stderr, "\nThe demo failed: %v\n", err)
		os.Exit(1)
	}
}

func readOptions(keep, driver, nodes string) (options, error) {
	o := options{
		keep:      keep != "" && keep != "0" && keep != "false",
		overGRPC:  driver == "grpc",
		realNodes: nodes == "real",
	}
	if nodes != "" && !o.realNodes {
		return o, fmt.Errorf("NODES=%s: the only value is real; leave it empty for simulated provider nodes", nodes)
	}
	if driver != "" && !o.overGRPC {
		return o, fmt.Errorf("DRIVER=%s: the only value is grpc; leave it empty to run the driver in the sidecar's process", driver)
	}
	return o, nil
}

func run(ctx context.Context, o options) (err error) {
	d, err := newDemo(screen.New(os.Stdout), o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.close(ctx, err)) }()
	chapters := contents(o)
	for i, c := range chapters {
		if err := d.perform(ctx, i+1, len(chapters), c); err != nil {
			return fmt.Errorf("%s: %w", c.title, err)
		}
	}
	d.summarize()
	return nil
}

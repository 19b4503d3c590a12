// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package integration runs the extension with real parts: API servers of a seed, a shoot and a
// provider cluster, KubeVirt, CDI, machine-controller-manager with the driver, and
// gardener-resource-manager. Gardener's own deployers write the resources. The kubelets, the storage
// and the guests of the provider cluster are simulated (test/lab).
package integration

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/test/seed"
)

// theSeed is the seed of all tests.
var theSeed *seed.Seed

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	var err error
	if theSeed, err = seed.Start(ctx, os.Stderr, seed.WithMonitoring()); err != nil {
		fmt.Fprintln(os.Stderr, err)

		return 1
	}

	// An interrupted run ends at once, with all its processes.
	finished := context.AfterFunc(ctx, func() { os.Exit(end(1)) })
	code := m.Run()

	if err := checkPermissions(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)

		code = 1
	}

	if !finished() {
		select {}
	}

	if code == 0 && !isPartial() {
		fmt.Fprintln(os.Stderr, theSeed.Versions()+": all tests passed") // for docs/compatibility.md
	}

	return end(code)
}

// end stops the seed, and returns the exit code.
func end(code int) int {
	const atMost = time.Minute

	ctx, cancel := context.WithTimeout(context.Background(), atMost)
	defer cancel()

	if err := theSeed.Stop(ctx, code != 0); err != nil {
		fmt.Fprintln(os.Stderr, err)

		return 1
	}

	if code != 0 {
		fmt.Fprintln(os.Stderr, "logs:", theSeed.Folder)
	}

	return code
}

// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

//go:build node

package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/test/seed"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/node"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/node/host"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/node/root"
)

// theSeed is the seed of all tests.
var theSeed *seed.Seed

// TestMain runs no test on a machine that cannot run nodes, unless LAB_NODES=required.
func TestMain(m *testing.M) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)

	if code, text := host.Refusal(missing(ctx), os.Getenv("LAB_NODES")); text != "" {
		fmt.Fprintln(os.Stderr, text)
		os.Exit(code)
	}

	code, err := run(ctx, m)

	stop()

	if err != nil {
		fmt.Fprintln(os.Stderr, "node:", err)

		code = 1
	}

	os.Exit(code)
}

// missing returns what this machine lacks.
func missing(ctx context.Context) error {
	if node.Isolated() { // The check needs the network of the machine.
		return nil
	}

	return errors.Join(host.Check(), root.Check(ctx))
}

// run runs the tests with a seed in the network of the nodes.
func run(ctx context.Context, m *testing.M) (code int, err error) {
	if !node.Isolated() {
		if err := seed.Prepare(ctx, os.Stderr, seed.WithRealNodes()); err != nil {
			return 0, err
		}
	}

	if err := node.Isolate(); err != nil {
		return 0, err
	}

	if theSeed, err = seed.Start(ctx, os.Stderr, seed.WithRealNodes()); err != nil {
		return 0, err
	}

	defer func() {
		const atMost = 2 * time.Minute

		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), atMost)
		defer cancel()

		err = errors.Join(err, theSeed.Stop(stopping, code != 0))
	}()

	return m.Run(), nil
}

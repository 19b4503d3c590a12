// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

//go:build node

package node

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/suite"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/environment"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/node"
)

// guestImage is the disk image of guests with kubelet.
var guestImage string

// TestMain runs no test on a machine that cannot run nodes, unless LAB_NODES=required.
func TestMain(m *testing.M) {
	flag.Parse()

	ctx := context.Background()

	if code, text := refusal(environment.CheckNodes(ctx), os.Getenv("LAB_NODES")); text != "" {
		fmt.Fprintln(os.Stderr, text)
		os.Exit(code)
	}

	if err := isolate(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "node:", err)
		os.Exit(1)
	}

	os.Exit(harness.Main(ctx, m, suite.RealNodes))
}

// isolate builds what the lab runs, and then leaves the network of this machine.
func isolate(ctx context.Context) error {
	options := environment.Options{Progress: os.Stderr, Monitoring: true}
	suite.RealNodes(&options)

	if err := environment.Prepare(ctx, options); err != nil {
		return err
	}

	if testing.Short() { // no test has such a guest
		return node.Isolate()
	}

	var err error
	if guestImage, err = environment.EnsureGuestImage(ctx, os.Stderr); err != nil {
		return err
	}

	return node.Isolate()
}

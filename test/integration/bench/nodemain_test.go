// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

//go:build bench && node

package bench

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/suite"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/environment"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/node"
)

// TestMain gives the lab real nodes, so that only TestGoldenImages can run.
func TestMain(m *testing.M) {
	ctx := context.Background()

	for _, step := range []func() error{
		func() error { return environment.CheckNodes(ctx) },
		func() error { return suite.Prepare(ctx, os.Stderr, suite.RealNodes) },
		node.Isolate,
	} {
		if err := step(); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
	}

	harness.ScrapeEvery = time.Minute
	laboratory = "The control planes, two nodes and CDI's pods are real; a volume is a folder of this machine."

	os.Exit(harness.Main(ctx, m, suite.RealNodes))
}

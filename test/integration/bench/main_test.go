// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

//go:build bench && !node

package bench

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

func TestMain(m *testing.M) {
	harness.ScrapeEvery = time.Minute // as Prometheus does by default

	os.Exit(harness.Main(context.Background(), m))
}

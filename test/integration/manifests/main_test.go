// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package manifests tests the files shipped with the programs: manifests, overlays, MachineClasses,
// alerts, dashboards, and the commands in docs/getting-started.md.
package manifests

import (
	"context"
	"os"
	"testing"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(context.Background(), m)) }

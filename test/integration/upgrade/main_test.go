// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

//go:build soak

package upgrade

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/suite"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/binaries"
)

// The versions before and after the upgrade.
const (
	from = "1.7"
	to   = binaries.KubeVirtPreset
)

func TestMain(m *testing.M) { os.Exit(runAlone(m)) }

// runAlone runs the tests with a lab of their own.
func runAlone(m *testing.M) int {
	for name, value := range map[string]string{suite.Variable: "", binaries.KubeVirtVariable: from} {
		if err := os.Setenv(name, value); err != nil {
			fmt.Fprintln(os.Stderr, "upgrade:", err)

			return 1
		}
	}

	return harness.Main(context.Background(), m)
}

// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

//go:build guest

package guest

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/suite"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/guest/host"
)

// TestMain runs no test on a machine that cannot run guests, unless LAB_GUEST=required. It ends with a table
// of what has been proven.
func TestMain(m *testing.M) {
	if code, text := refusal(host.Check(), os.Getenv("LAB_GUEST")); text != "" {
		fmt.Fprintln(os.Stderr, text)
		os.Exit(code)
	}

	code := harness.Main(context.Background(), m, suite.RealGuests)
	if code != 0 {
		proven.failed = true
	}

	fmt.Fprintln(os.Stdout, proven)
	os.Exit(code)
}

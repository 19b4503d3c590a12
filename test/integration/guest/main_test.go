//go:build guest

package guest

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/suite"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/guest"
)

// TestMain runs no test on a machine that cannot run guests, unless LAB_GUEST=required.
func TestMain(m *testing.M) {
	if err := guest.CheckRequirements(); err != nil {
		fmt.Fprintln(os.Stderr, err)

		if os.Getenv("LAB_GUEST") == "required" {
			os.Exit(1)
		}

		fmt.Fprintln(os.Stderr, "SKIPPED: no guest was booted, and nothing is proven. LAB_GUEST=required makes this a failure.")
		os.Exit(0)
	}

	os.Exit(harness.Main(context.Background(), m, suite.RealGuests))
}

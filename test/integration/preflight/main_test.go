// Package preflight tests the diagnoses: each failure that operators can meet, what preflight and diagnose report about
// it, and what reaches the Machine.
package preflight

import (
	"context"
	"os"
	"testing"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(context.Background(), m)) }

//go:build bench

package bench

import (
	"context"
	"os"
	"testing"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(context.Background(), m)) }

// Package evacuation tests what happens to machines when administrators drain or power off provider nodes: live migration,
// and graceful replacement.
package evacuation

import (
	"context"
	"os"
	"testing"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(context.Background(), m)) }

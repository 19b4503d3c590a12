// Package manifests tests what is shipped beside the programs: manifests, overlays, MachineClasses, alerts, dashboards, and
// the commands of the getting-started page.
package manifests

import (
	"context"
	"os"
	"testing"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(context.Background(), m)) }

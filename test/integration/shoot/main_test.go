// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package shoot tests shoots under the real machine-controller-manager: rolling updates,
// hibernation, migration, deletion, full zones, outages, and the view of cluster-autoscaler and
// cloud-controller-manager.
package shoot

import (
	"context"
	"os"
	"testing"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(context.Background(), m)) }

// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package crash tests that no crash and no fault at any request loses or duplicates an object: the
// crash matrix, killed processes, and outages of the provider cluster.
package crash

import (
	"context"
	"os"
	"testing"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(context.Background(), m)) }

// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package security tests the limits of an attacker who controls parts of the system: hostile
// servers, stolen tokens, and bootstrap tokens.
package security

import (
	"context"
	"os"
	"testing"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(context.Background(), m)) }

// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package validate

import (
	"testing"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/commands"
)

// run runs a command line, and returns its output.
func run(t *testing.T, stdin string, args ...string) (string, error) {
	t.Helper()

	return commands.Run(t, stdin, args, NewCommand)
}

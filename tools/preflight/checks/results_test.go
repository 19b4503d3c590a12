// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDeduplicated has two classes that share a warning.
func TestDeduplicated(t *testing.T) {
	t.Parallel()

	warn := func(class, message string) Result {
		return Result{Class: class, Level: Warning, Message: message, Remedy: "r"}
	}
	fine := func(class string) Result { return Result{Class: class, Level: OK, Message: "m"} }

	got := deduplicated([]Result{warn("", "all"), fine("a"), warn("a", "shared"), warn("a", "own"), fine("b"), warn("b", "shared")})

	shared := warn("", "shared")
	shared.Classes = []string{"a", "b"}
	require.Equal(t, []Result{warn("", "all"), shared, fine("a"), warn("a", "own"), fine("b")}, got)
}

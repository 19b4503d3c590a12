// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package statustext_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/gardener/machine-controller-manager/pkg/util/provider/machinecodes/codes"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/machinecodes/status"
	"github.com/stretchr/testify/require"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/statustext"
)

// FuzzFit requires that machine-controller-manager can parse a fitted message, and that fitting it
// again changes nothing: a text may pass through two processes.
func FuzzFit(f *testing.F) {
	for _, message := range []string{
		"", "x [ y", "a ] [ b", "\xff\x00\n", "Token: Initiate\nnode drain", "OutOfOutOfRangeRange",
		strings.Repeat("ö", statustext.MaxLength), strings.Repeat("a", statustext.MaxLength) + "Initiate node drain",
	} {
		f.Add(message)
	}

	f.Fuzz(func(t *testing.T, message string) {
		fit := statustext.Fit(message)

		require.Equal(t, fit, statustext.Fit(fit))
		require.LessOrEqual(t, len(fit), statustext.MaxLength)
		require.True(t, utf8.ValidString(fit))

		got, ok := status.FromError(status.Error(codes.Aborted, fit))
		require.True(t, ok)
		require.Equal(t, codes.Aborted, got.Code())
		require.Equal(t, fit, got.Message())
	})
}

func TestFitWithRemedy(t *testing.T) {
	t.Parallel()

	const remedy = "; do [this] with Secret a/b"

	long := statustext.FitWithRemedy(strings.Repeat("ö", statustext.MaxLength), remedy[2:])
	require.LessOrEqual(t, len(long), statustext.MaxLength)
	require.True(t, utf8.ValidString(long))
	require.True(t, strings.HasSuffix(long, " …; do (this) with Secret a/b"), "the message is cut, not the remedy: %s", long)
	require.Equal(t, long, statustext.Fit(long))

	require.Equal(t, "a; b", statustext.FitWithRemedy("a", "b"))
	require.Equal(t, "a", statustext.FitWithRemedy("a", ""))

	both := statustext.FitWithRemedy(strings.Repeat("a", 2000), strings.Repeat("b", 2000))
	require.Len(t, both, statustext.MaxLength)
}

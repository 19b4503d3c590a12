// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package diagnose_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestMessages(t *testing.T) {
	t.Parallel()

	e := unschedulable("0/3 nodes are available: 2 Insufficient memory. no new claims to deallocate, preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling.", ago(time.Hour))
	require.True(t, strings.HasPrefix(e.Cause(now, grace).Err.Error(), "Unschedulable: 0/3 nodes are available: 2 Insufficient memory; add provider nodes"))

	e = importSays(`Get "https://user:geheim@example.com/x?X-Amz-Signature=geheim": got 404, docker://registry.example.com/a:1`)
	require.Contains(t, e.Cause(now, grace).Err.Error(), `Get "https://example.com/x": got 404, docker://registry.example.com/a:1; correct`)

	for _, words := range []string{"got 404 ", "got 404: "} {
		long := importSays(words+strings.Repeat("ö", 2000)).Cause(now, grace).Err
		require.Less(t, len(long.Error()), 900, "short enough for a Machine's status")
		require.True(t, utf8.ValidString(long.Message), "no character is cut in half")
	}

	const most = 450
	require.NotContains(t, importSays(strings.Repeat("x", most)).Cause(now, grace).Err.Message, "…")
	require.Contains(t, importSays(strings.Repeat("x", most+1)).Cause(now, grace).Err.Message, "…")
}

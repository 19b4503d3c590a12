package diagnose_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestMessages(t *testing.T) {
	t.Parallel()

	e := unschedulable("0/3 nodes are available: 2 Insufficient memory. no new claims to deallocate, preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling.", ago(time.Hour))
	require.True(t, strings.HasPrefix(e.Cause(now, grace).Err.Error(), "Unschedulable: 0/3 nodes are available: 2 Insufficient memory; add provider nodes"))

	e = importSays(`Get "https://user:geheim@example.com/x?X-Amz-Signature=geheim": got 404, docker://registry.example.com/a:1`)
	require.Contains(t, e.Cause(now, grace).Err.Error(), `Get "https://example.com/x": got 404, docker://registry.example.com/a:1; correct`)

	e = importSays("got 404 " + strings.Repeat("ö", 2000))
	require.Less(t, len(e.Cause(now, grace).Err.Error()), 900, "short enough for a Machine's status")
}

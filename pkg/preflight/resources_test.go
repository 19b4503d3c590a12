package preflight

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/utils/ptr"
)

func TestRoundedUp(t *testing.T) {
	t.Parallel()

	require.Equal(t, "7729Mi", roundedUp("limits.memory", *ptr.To(binary(8103676416))))
	require.Equal(t, "7728Mi", roundedDown("limits.memory", *ptr.To(binary(8103676416))))
	require.Equal(t, "101Gi", roundedUp("requests.storage", *ptr.To(binary(100*gibibyte + 1))))
	require.Equal(t, "8103676416", roundedUp("count/secrets", *ptr.To(decimal(8103676416))), "it is not a number of bytes")
}

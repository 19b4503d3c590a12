package dataplane

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAddressPool(t *testing.T) {
	t.Parallel()
	pool := newAddressPool(10, 244)
	require.Equal(t, "10.244.0.1", pool.next())
	require.Equal(t, "10.244.0.2", pool.next())
	pool.reserve("10.244.0.254")
	pool.reserve("10.244.0.9")  // older
	pool.reserve("127.244.3.3") // another pool's
	pool.reserve("fd00::1")     // not IPv4
	pool.reserve("no address")  // invalid
	require.Equal(t, "10.244.1.1", pool.next(), "continues where a former run ended")
}

package harness

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// PerKubeVirt holds an expectation for each minor version of KubeVirt in the lab, such as "1.9".
type PerKubeVirt[T any] map[string]T

// Get returns the expectation for the version that runs. It fails the test if there is none, so that
// a new version needs a decision for each table.
func (p PerKubeVirt[T]) Get(t *testing.T) T {
	t.Helper()

	minor := Lab().Binaries.KubeVirtVersion.Minor()
	require.Contains(t, p, minor, "KubeVirt %s has no row in this table", minor)

	return p[minor]
}

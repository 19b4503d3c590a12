package diagnosis

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMachineName(t *testing.T) {
	t.Parallel()

	for _, given := range []string{"m", "machine/m", "machines/m", "machine.machine.sapcloud.io/m"} {
		name, err := machineName(given)
		require.NoError(t, err)
		require.Equal(t, "m", name)
	}

	_, err := machineName("machinedeployment/m")
	require.ErrorContains(t, err, "is not a Machine")
}

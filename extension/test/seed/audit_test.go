// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package seed

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestSeed_CountRequests requires a watch to count when it starts, and not again when it ends.
func TestSeed_CountRequests(t *testing.T) {
	t.Parallel()

	const of = `"userAgent":"gardener-extension-provider-kubevirt/v1","user":{"username":"system:serviceaccount:` + ExtensionNamespace + `:extension"},`

	clusters := &labState{}

	for _, cluster := range []struct {
		kubeconfig *string
		log        string
	}{
		{&clusters.ControlKubeconfig, `
			{` + of + `"stage":"ResponseComplete","verb":"get","requestReceivedTimestamp":"2026-01-01T00:00:10.000000Z"}
			{` + of + `"stage":"ResponseStarted","verb":"watch","requestReceivedTimestamp":"2026-01-01T00:00:20.000000Z"}
			{` + of + `"stage":"ResponseComplete","verb":"watch","requestReceivedTimestamp":"2026-01-01T00:00:20.000000Z"}
			{"stage":"ResponseComplete","verb":"get","requestReceivedTimestamp":"2026-01-01T00:00:10.000000Z"}`},
		{&clusters.ProviderKubeconfig, `
			{` + of + `"stage":"ResponseStarted","verb":"watch","requestReceivedTimestamp":"2026-01-01T00:00:30.000000Z"}
			{` + of + `"stage":"ResponseComplete","verb":"get","requestReceivedTimestamp":"2026-01-01T00:01:10.000000Z"}`},
	} {
		*cluster.kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
		require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(*cluster.kubeconfig), "audit.log"), []byte(cluster.log), 0o600))
	}

	from := time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)
	toSeed, toProvider, err := (&Seed{state: clusters}).CountRequests("extension", from, from.Add(time.Minute))
	require.NoError(t, err)
	require.Equal(t, []int{2, 1}, []int{toSeed, toProvider})
}

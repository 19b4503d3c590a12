// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAttach(t *testing.T) {
	t.Parallel()
	owned, err := newCluster("x", Options{Dir: t.TempDir()})
	require.NoError(t, err)
	owned.ServerURL = "https://127.0.0.1:1"
	owned.AdminKubeconfig, err = owned.writeKubeconfig(admin, "admin")
	require.NoError(t, err)

	attached, err := Attach("x", owned.AdminKubeconfig)
	require.NoError(t, err)
	require.Equal(t, owned.Config(), attached.Config())
	require.Equal(t, owned.AuditLog(), attached.AuditLog())

	want, err := owned.Kubeconfig("token", "namespace")
	require.NoError(t, err)
	got, err := attached.Kubeconfig("token", "namespace")
	require.NoError(t, err)
	require.Equal(t, string(want), string(got))

	_, err = Attach("x", filepath.Join(t.TempDir(), "missing"))
	require.ErrorContains(t, err, "attach to cluster x")
}

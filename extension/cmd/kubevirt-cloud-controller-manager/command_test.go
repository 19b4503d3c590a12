// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/cloud-provider/names"
)

// TestNewCommand has the flags of the chart.
func TestNewCommand(t *testing.T) {
	t.Parallel()

	template, err := os.ReadFile("../../charts/internal/seed-controlplane/templates/cloud-controller-manager.yaml")
	require.NoError(t, err)

	command, err := newCommand(t.Context().Done())
	require.NoError(t, err)

	found := 0

	for _, flag := range strings.Fields(string(template)) {
		if name, _, is := strings.Cut(strings.TrimPrefix(flag, "--"), "="); is && strings.HasPrefix(flag, "--") {
			require.NotNil(t, command.Flags().Lookup(name), name)

			found++
		}
	}

	require.Greater(t, found, 10)
	require.Equal(t, "kubevirt", command.Flags().Lookup("cloud-provider").DefValue)
}

// TestControllers runs Kubernetes' controllers for Nodes and Services, and no other.
func TestControllers(t *testing.T) {
	t.Parallel()

	all := controllers()
	require.Len(t, all, 3)

	for _, name := range []string{names.CloudNodeController, names.CloudNodeLifecycleController, names.ServiceLBController} {
		require.Contains(t, all, name)
	}
}

// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/guests"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

// onOneNode is overlaid on the spec of a machine that can be live-migrated, but to no other node.
const onOneNode = `{"networks":[{"pod":{},"masquerade":{}}],
	"virtualMachineTemplate":{"spec":{"template":{"spec":{"nodeSelector":{"kubernetes.io/hostname":"provider-a-0"}}}}}}`

// TestDiagnoseDrainOfLastNode migrates a machine that no other node accepts. The real virt-controller
// creates the target pod, and the real scheduler rejects it.
func TestDiagnoseDrainOfLastNode(t *testing.T) {
	t.Parallel()

	s := harness.NewShoot(t)
	d := harness.NewDriver(harness.Settings{Grace: time.Minute})
	m := s.NewMachine("zone-a", harness.EphemeralRoot)
	m.Class.ProviderSpec.Raw = harness.MergeFields(t, m.Class.ProviderSpec.Raw, onOneNode)
	s.RegisterMachine(t, m)

	_, err := m.Create(t.Context(), d)
	require.NoError(t, err)
	guests.StartMigration(t, s, m.Name())

	var got harness.Diagnosis

	harness.Eventually(t, "diagnose finds the obstacle", func(ctx context.Context) (bool, error) {
		var code int

		got, code = s.DiagnoseMachine(ctx, t, m.Name())

		return got.Cause != nil && code == 1, nil
	})
	require.Equal(t, "MigrationUnschedulable", got.Cause.Reason)
	require.Contains(t, got.Cause.Message, "away from provider node provider-a-0: 0/")
	require.Contains(t, strings.Join(got.Provider.Unread, "; "), "kubernetes/evacuation/provider-namespace", "the shipped Role does not permit to list migrations")
	harness.RequireDeleted(t, m, d)
}

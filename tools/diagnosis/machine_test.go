// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package diagnosis

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// TestMachine_Node checks the description of
// what machine-controller-manager waits for.
func TestMachine_Node(t *testing.T) {
	t.Parallel()

	deleted := time.Now()
	tests := map[string]struct {
		reason  string
		machine *MachineState
		stage   spi.Stage
		down    bool
		want    string
	}{
		"NoMachine": {reason: "there is no Machine", stage: spi.StageScheduled},
		"Creating":  {reason: "that is said already", machine: &MachineState{Phase: "Pending"}, stage: spi.StageCreating},
		"Pending":   {reason: "the guest has to join", machine: &MachineState{Phase: "Pending"}, stage: spi.StageScheduled, want: "virtctl console"},
		"NoGuest":   {reason: "there is no console", machine: &MachineState{Phase: "Pending"}, stage: spi.StageScheduled, down: true, want: "its guest does not run"},
		"Running":   {reason: "nothing", machine: &MachineState{Phase: "Running"}, stage: spi.StageScheduled, want: "its Node is healthy"},
		"Deleted":   {reason: "the drain", machine: &MachineState{Phase: "Terminating", Deleted: &deleted}, stage: spi.StageScheduled, want: "drains"},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			got := (&Machine{Machine: tc.machine}).node(&spi.Explanation{Stage: tc.stage, GuestRuns: !tc.down})
			require.Contains(t, got, tc.want, tc.reason)
			require.Equal(t, tc.want == "", got == "", tc.reason)
		})
	}
}

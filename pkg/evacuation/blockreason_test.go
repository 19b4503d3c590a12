// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package evacuation

import (
	"testing"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func TestMachineBlockReason(t *testing.T) {
	t.Parallel()

	annotated := func(value string, phase v1alpha1.MachinePhase) *v1alpha1.Machine {
		m := machineNamed("a", phase)
		m.Annotations = map[string]string{"node.machine.sapcloud.io/preserve": value}

		return &m
	}
	updating := func(reason string) *v1alpha1.Machine {
		m := machineNamed("a", v1alpha1.MachineRunning)
		m.Status.Conditions = []corev1.NodeCondition{{Type: v1alpha1.NodeInPlaceUpdate, Reason: reason}}

		return &m
	}
	expired := machineNamed("a", v1alpha1.MachineFailed)
	expired.Status.CurrentStatus.PreserveExpiryTime = ptr.To(metav1.NewTime(start.Add(-time.Second)))

	tests := map[string]struct {
		machine *v1alpha1.Machine
		blocked bool
	}{
		"Now":             {annotated("now", v1alpha1.MachineRunning), true},
		"WhenFailed":      {annotated("when-failed", v1alpha1.MachineRunning), false},
		"Failed":          {annotated("when-failed", v1alpha1.MachineFailed), true},
		"AutoPreserved":   {annotated("auto-preserved", v1alpha1.MachineFailed), true},
		"NotPreserved":    {annotated("false", v1alpha1.MachineFailed), false},
		"Expired":         {&expired, false},
		"UpdateCandidate": {updating(v1alpha1.CandidateForUpdate), false},
		"UpdateSelected":  {updating(v1alpha1.SelectedForUpdate), true},
		"UpdateDrained":   {updating(v1alpha1.DrainSuccessful), true},
		"UpdateReady":     {updating(v1alpha1.ReadyForUpdate), true},
		"UpdateDone":      {updating(v1alpha1.UpdateSuccessful), false},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.blocked, machineBlockReason(tc.machine, replace, start) != "")
		})
	}
}

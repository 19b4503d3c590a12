// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package evacuation

import (
	"testing"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/stretchr/testify/require"
)

func TestIsFrozen(t *testing.T) {
	t.Parallel()

	type conditions = []v1alpha1.MachineSetCondition

	tests := map[string]struct {
		reason string
		have   conditions
		want   bool
	}{
		"None":   {reason: "machine-controller-manager creates Machines"},
		"Frozen": {reason: "it does not", have: conditions{{Type: v1alpha1.MachineSetFrozen, Status: v1alpha1.ConditionTrue}}, want: true},
		"Thawed": {reason: "it does again", have: conditions{{Type: v1alpha1.MachineSetFrozen, Status: v1alpha1.ConditionFalse}}},
		"Other":  {reason: "a failed replica does not stop it", have: conditions{{Type: v1alpha1.MachineSetReplicaFailure, Status: v1alpha1.ConditionTrue}}},
		"Second": {
			reason: "there may be several conditions",
			want:   true,
			have: conditions{
				{Type: v1alpha1.MachineSetReplicaFailure, Status: v1alpha1.ConditionFalse}, {Type: v1alpha1.MachineSetFrozen, Status: v1alpha1.ConditionTrue},
			},
		},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			set := &v1alpha1.MachineSet{}
			set.Status.Conditions = tc.have
			require.Equal(t, tc.want, isFrozen(set), tc.reason)
		})
	}
}

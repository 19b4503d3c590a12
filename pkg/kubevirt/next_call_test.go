// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package kubevirt_test

import (
	"testing"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/kubevirt"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// TestNextCall compares with the periods of docs/troubleshooting.md.
func TestNextCall(t *testing.T) {
	t.Parallel()

	refused := spi.Errorf(spi.ErrUnauthenticated, "x")

	tests := map[string]struct {
		reason string
		cause  error
		change func(*v1alpha1.Machine)
		stage  spi.Stage
		want   time.Duration
		never  bool
	}{
		"Unasked":      {reason: "GetMachineStatus fails", cause: refused, want: 3 * time.Minute},
		"Absent":       {reason: "CreateMachine fails", cause: spi.ErrExhausted, stage: spi.StageAbsent, want: 10 * time.Minute},
		"Initializing": {reason: "InitializeMachine reports it", cause: spi.ErrExhausted, stage: spi.StageCreating, want: 5 * time.Second},
		"Deleting": {
			reason: "DeleteMachine fails",
			cause:  refused,
			want:   10 * time.Minute,
			change: func(m *v1alpha1.Machine) { m.DeletionTimestamp = &metav1.Time{Time: time.Now()} },
		},
		"CrashLooping": {
			reason: "a creation that failed is repeated",
			cause:  refused,
			want:   3 * time.Minute,
			change: func(m *v1alpha1.Machine) {
				m.Spec.ProviderID = "kubevirt://m"
				m.Status.CurrentStatus.Phase = v1alpha1.MachineCrashLoopBackOff
			},
		},
		"Joined": {
			reason: "the Node is judged",
			cause:  refused,
			never:  true,
			change: func(m *v1alpha1.Machine) {
				m.Spec.ProviderID = "kubevirt://m"
				m.Status.CurrentStatus.Phase = v1alpha1.MachineRunning
			},
		},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			m := &v1alpha1.Machine{}
			if tc.change != nil {
				tc.change(m)
			}

			got, called := kubevirt.NextCall(tc.cause, m, tc.stage)
			require.Equal(t, !tc.never, called, tc.reason)
			require.Equal(t, tc.want, got, tc.reason)
		})
	}

	_, called := kubevirt.NextCall(refused, nil, "")
	require.False(t, called, "there is no Machine")
}

// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestLatencyFrom(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		reason string
		value  string
		want   time.Duration
	}{
		"Absent":   {reason: "no annotation means the default", want: DefaultBootLatency},
		"Zero":     {reason: "zero is a valid latency", value: "0s", want: 0},
		"Minutes":  {reason: "Go durations are read", value: "3m", want: 3 * time.Minute},
		"Negative": {reason: "a negative latency is invalid", value: "-1s", want: DefaultBootLatency},
		"Garbage":  {reason: "a typo must not stop a lab", value: "soon", want: DefaultBootLatency},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			annotations := map[string]string{}
			if tc.value != "" {
				annotations[BootLatencyAnnotation] = tc.value
			}
			require.Equal(t, tc.want, latencyFrom(annotations, BootLatencyAnnotation), tc.reason)
		})
	}
}

func TestEveryLatencyHasADefault(t *testing.T) {
	t.Parallel()
	for _, annotation := range []string{
		ImportLatencyAnnotation, CloneLatencyAnnotation, ProvisionLatencyAnnotation,
		BootLatencyAnnotation, JoinLatencyAnnotation, ShutdownLatencyAnnotation,
	} {
		require.Positive(t, usualLatency(annotation), annotation)
	}
	require.Zero(t, usualLatency("sim.lab/unknown"))
}

func TestRemaining(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	require.Equal(t, 3*time.Second, Remaining(now, now.Add(-2*time.Second), 5*time.Second))
	require.Zero(t, Remaining(now, now.Add(-5*time.Second), 5*time.Second), "due")
	require.Zero(t, Remaining(now, time.Time{}, 5*time.Second), "an operation that began long ago is complete, also after a restart")
}

func TestMarks(t *testing.T) {
	t.Parallel()
	marked := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{StuckKey: "true"}}}
	annotated := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{StuckKey: "true"}}}
	require.True(t, IsStuck(marked))
	require.True(t, IsStuck(annotated))
	require.False(t, IsStuck(&corev1.Pod{}))
	require.True(t, IsDown(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{DownLabel: "true"}}}))
	require.False(t, IsDown(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{DownLabel: "false"}}}))
}

func TestIsMissingImage(t *testing.T) {
	t.Parallel()
	for reference, want := range map[string]bool{
		"registry.local/missing":                true,
		"docker://registry.local/x/missing:2":   true,
		"registry.local/missing@sha256:00":      true,
		"registry.local/missing/disk:1":         false,
		"registry.local/not-missing":            false,
		"missing":                               false,
		"":                                      false,
		"https://images.local/missing/d.qcow2x": false,
	} {
		require.Equal(t, want, IsMissingImage(reference), reference)
	}
}

func TestHasFault(t *testing.T) {
	t.Parallel()
	object := &metav1.ObjectMeta{Annotations: map[string]string{FaultAnnotation: "no-join,crash"}}
	require.True(t, HasFault(object, FaultCrash))
	require.True(t, HasFault(object, FaultNoJoin))
	require.False(t, HasFault(object, FaultNoBoot))
	require.False(t, HasFault(&metav1.ObjectMeta{}, FaultCrash))
}

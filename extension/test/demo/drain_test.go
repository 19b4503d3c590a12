// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"testing"

	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/observer"
)

func TestJudge(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		reason   string
		unready  int
		killed   []corev1.Pod
		evicted  bool
		deleted  bool
		replaced int
		problem  string
	}{
		"Migrated":    {reason: "no machine is replaced"},
		"Replaced":    {reason: "as the budget allows", unready: replicas - available, evicted: true, deleted: true, replaced: 1},
		"Budget":      {reason: "one pod more than the budget allows", unready: replicas - available + 1, problem: "only 2 were ready"},
		"Killed":      {reason: "a guest was shut down under its pod", killed: make([]corev1.Pod, 1), deleted: true, replaced: 1, problem: "Killed:true"},
		"Moved":       {reason: "a live migration ends no pod", evicted: true, problem: "Killed:false"},
		"NotReplaced": {reason: "the machine was expected to be replaced", replaced: 1, problem: "replaced 0 machines, and 1 are expected"},
		"NotMigrated": {reason: "the machine was expected to be migrated", deleted: true, problem: "replaced 1 machines, and 0 are expected"},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			seen := observer.New(observer.Options{Tell: func(string, string) {}, PodsOn: func(string) ([]corev1.Pod, error) { return tc.killed, nil }})
			for i := range replicas {
				seen.Pod(nil, webPod(i, corev1.ConditionTrue))
			}

			seen.Begin()

			for i := range tc.unready {
				seen.Pod(webPod(i, corev1.ConditionTrue), webPod(i, corev1.ConditionFalse))
			}

			if tc.evicted {
				seen.Pod(webPod(replicas, corev1.ConditionFalse), nil)
			}

			if tc.deleted {
				now := metav1.Now()
				seen.Machine(&machinev1alpha1.Machine{}, &machinev1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &now}})
			}

			seen.Instance(&kubevirtv1.VirtualMachineInstance{Status: kubevirtv1.VirtualMachineInstanceStatus{Phase: kubevirtv1.Running}}, nil)

			if err := judge(seen, tc.replaced); tc.problem == "" {
				require.NoError(t, err, tc.reason)
			} else {
				require.ErrorContains(t, err, tc.problem, tc.reason)
			}
		})
	}
}

func webPod(i int, ready corev1.ConditionStatus) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(i), Labels: map[string]string{observer.AppLabel: app}},
		Status:     corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}},
	}
}

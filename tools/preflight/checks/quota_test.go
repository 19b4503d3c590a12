// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"cmp"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	instancetypev1beta1 "kubevirt.io/api/instancetype/v1beta1"
)

func TestMachineEstimate(t *testing.T) {
	t.Parallel()

	size := &instancetypev1beta1.VirtualMachineInstancetypeSpec{Memory: instancetypev1beta1.MemoryInstancetype{Guest: resource.MustParse("8Gi")}}

	for name, tc := range map[string]struct {
		reason       string
		spec         string
		instancetype *instancetypev1beta1.VirtualMachineInstancetypeSpec
		want         map[corev1.ResourceName]string
	}{
		"Guest": {
			reason: "the guest's memory, with a margin; KubeVirt chooses the CPUs",
			spec:   `{"memory":{"guest":"4Gi"},"cpu":{"cores":2}}`,
			want:   map[corev1.ResourceName]string{corev1.ResourceRequestsMemory: "4608Mi"},
		},
		"Requests": {
			reason: "the requests",
			spec:   `{"memory":{"guest":"4Gi"},"resources":{"requests":{"cpu":"1","memory":"2Gi"}}}`,
			want:   map[corev1.ResourceName]string{corev1.ResourceRequestsMemory: "2560Mi", corev1.ResourceRequestsCPU: "1"},
		},
		"Instancetype": {
			reason:       "the size is elsewhere",
			spec:         `{}`,
			instancetype: size,
			want:         map[corev1.ResourceName]string{corev1.ResourceRequestsMemory: "8704Mi"},
		},
		"Unknown": {reason: "nothing is known of its size", spec: `{}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			c := classOf(t, `{"spec":{"template":{"spec":{"domain":`+tc.spec+`}}}}`)
			c.secrets = []*corev1.Secret{{}, {}}

			want := corev1.ResourceList{
				corev1.ResourcePods: resource.MustParse("1"), corev1.ResourceSecrets: resource.MustParse("2"),
				"count/virtualmachines.kubevirt.io": resource.MustParse("1"),
			}
			for name, text := range tc.want {
				want[name] = resource.MustParse(text)
			}

			got := machineEstimate(c, cmp.Or(tc.instancetype, &instancetypev1beta1.VirtualMachineInstancetypeSpec{}))
			require.Len(t, got, len(want))

			for name := range want {
				amount := got[name]
				require.Zero(t, amount.Cmp(want[name]), "%s: %s is %s", tc.reason, name, amount.String())
			}
		})
	}
}

func TestShortages(t *testing.T) {
	t.Parallel()

	needed := corev1.ResourceList{
		corev1.ResourcePods: resource.MustParse("2"), corev1.ResourceRequestsMemory: resource.MustParse("4Gi"), corev1.ResourceRequestsCPU: resource.MustParse("1"),
	}

	for name, tc := range map[string]struct {
		reason     string
		hard, used corev1.ResourceList
		want       []string
	}{
		"Enough":     {reason: "exactly enough", hard: corev1.ResourceList{"pods": resource.MustParse("2"), "requests.memory": resource.MustParse("4Gi")}},
		"NotCounted": {reason: "no machine needs it", hard: corev1.ResourceList{"services": resource.MustParse("0")}},
		"Used": {
			reason: "what is used is not left",
			hard:   corev1.ResourceList{"pods": resource.MustParse("3")},
			used:   corev1.ResourceList{"pods": resource.MustParse("2")},
			want:   []string{"ResourceQuota q has 1 of pods left, but about 2 is needed"},
		},
		"OtherNames": {
			reason: "quotas have two names for some resources",
			hard:   corev1.ResourceList{"count/pods": resource.MustParse("1"), "cpu": resource.MustParse("100m"), "memory": resource.MustParse("1Gi")},
			want: []string{
				"ResourceQuota q has 1 of count/pods left, but about 2 is needed", "ResourceQuota q has 100m of cpu left, but about 1 is needed",
				"ResourceQuota q has 1024Mi of memory left, but about 4096Mi is needed",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			quota := corev1.ResourceQuota{Spec: corev1.ResourceQuotaSpec{Hard: tc.hard}, Status: corev1.ResourceQuotaStatus{Used: tc.used}}
			quota.Name = "q"
			require.Equal(t, tc.want, shortages([]corev1.ResourceQuota{quota}, needed), tc.reason)

			quota.Spec.Scopes = []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeBestEffort}
			require.Empty(t, shortages([]corev1.ResourceQuota{quota}, needed), "with scopes, it counts other objects")
		})
	}
}

// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"testing"

	"github.com/stretchr/testify/require"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

func TestCloningAccount(t *testing.T) {
	t.Parallel()

	token := kubevirtv1.Volume{
		Name: "token",
		VolumeSource: kubevirtv1.VolumeSource{
			ServiceAccount: &kubevirtv1.ServiceAccountVolumeSource{ServiceAccountName: "of-volume"},
		},
	}
	config := kubevirtv1.Volume{Name: "config", VolumeSource: kubevirtv1.VolumeSource{ConfigMap: &kubevirtv1.ConfigMapVolumeSource{}}}

	tests := map[string]struct {
		reason  string
		account string
		volumes []kubevirtv1.Volume
		want    string
	}{
		"Default":   {reason: "the machine names none", volumes: []kubevirtv1.Volume{config}, want: "default"},
		"OfVolume":  {reason: "the guest has its token", volumes: []kubevirtv1.Volume{config, token}, want: "of-volume"},
		"OfMachine": {reason: "KubeVirt knows the field since 1.9", account: "own", want: "own"},
		"Both":      {reason: "the machine's own takes precedence", account: "own", volumes: []kubevirtv1.Volume{token}, want: "own"},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			instance := &kubevirtv1.VirtualMachineInstanceSpec{ServiceAccountName: tc.account, Volumes: tc.volumes}
			require.Equal(t, tc.want, cloningAccount(instance), tc.reason)
		})
	}
}

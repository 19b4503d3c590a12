// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package machineclass_test

import (
	"testing"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/machineclass"
)

func TestErrors(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		reason string
		class  v1alpha1.MachineClass
		want   []string
	}{
		"OneSecret": {
			reason: "one Secret may hold everything",
			class:  v1alpha1.MachineClass{SecretRef: &corev1.SecretReference{Name: "s", Namespace: "n"}},
		},
		"Predecessor": {
			reason: "the predecessor's name is accepted",
			class: v1alpha1.MachineClass{
				Provider:             "kubevirtdriver//127.0.0.1:8080",
				CredentialsSecretRef: &corev1.SecretReference{Name: "s", Namespace: "n"},
			},
		},
		"Foreign": {reason: "of another driver, and without Secrets", class: v1alpha1.MachineClass{Provider: "aws"}, want: []string{"provider", "secretRef"}},
		"EmptyRefs": {
			reason: "a Secret is found by name and namespace",
			class: v1alpha1.MachineClass{
				SecretRef:            &corev1.SecretReference{},
				CredentialsSecretRef: &corev1.SecretReference{Name: "s"},
			},
			want: []string{"secretRef.name", "secretRef.namespace", "credentialsSecretRef.namespace"},
		},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			var fields []string
			for _, err := range machineclass.Errors(&tc.class) {
				fields = append(fields, err.Field)
			}

			require.Equal(t, tc.want, fields, tc.reason)
		})
	}
}

func TestWarnings(t *testing.T) {
	t.Parallel()

	require.Empty(t, machineclass.Warnings(&v1alpha1.MachineClass{Provider: "kubevirt"}))
	require.Len(t, machineclass.Warnings(&v1alpha1.MachineClass{Provider: "kubevirtdriver//127.0.0.1:8080"}), 1)
}

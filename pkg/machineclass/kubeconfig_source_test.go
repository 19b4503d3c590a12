// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package machineclass

import (
	"testing"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestSourceOf(t *testing.T) {
	t.Parallel()

	class := &v1alpha1.MachineClass{SecretRef: &corev1.SecretReference{Namespace: "shoot", Name: "user-data"}}
	require.Equal(t, "Secret shoot/user-data, key kubeconfig", SourceOf(class, nil).String(), "there is no other one")

	class.CredentialsSecretRef = &corev1.SecretReference{Namespace: "shoot", Name: "cloudprovider"}
	require.Equal(t, "Secret shoot/cloudprovider, key kubeconfig", SourceOf(class, nil).String(), "its data win")

	held := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: ServerSideSource}}
	require.Contains(t, SourceOf(class, held).String(), "--kubeconfig-dir", "the driver's own")
	require.Equal(t, "the Secret of the MachineClass, key kubeconfig", SourceOf(nil, nil).String())

	require.False(t, SourceOf(class, nil).Gardener)

	class.Labels = map[string]string{"gardener.cloud/purpose": "machineclass"}
	require.True(t, SourceOf(class, nil).Gardener, "a class of Gardener's extension")
	require.False(t, SourceOf(class, held).Gardener, "the operator of the driver changes its file")
}

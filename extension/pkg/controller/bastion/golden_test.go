// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package bastion

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write the golden file")

// requireGolden compares the objects of a bastion with testdata/bastion.yaml: a field that is missing there admits or allows more
// than it should.
func requireGolden(t *testing.T, l *landscape) {
	t.Helper()

	var actual []byte

	secret := get(t, l, &corev1.Secret{})
	userData, err := userDataOf([]byte(userData), secret.Data[hostKeyKey])
	require.NoError(t, err)
	require.Equal(t, string(userData), string(secret.Data[userDataKey]))

	secret.Data = nil // differs each time

	for _, object := range []client.Object{
		get(t, l, &networkingv1.NetworkPolicy{}), secret, get(t, l, &kubevirtv1.VirtualMachine{}), get(t, l, &corev1.Service{}),
	} {
		object.SetUID("")
		object.SetResourceVersion("")

		document, err := yaml.Marshal(object)
		require.NoError(t, err)

		actual = append(actual, "---\n"...)
		actual = append(actual, document...)
	}

	file := filepath.Join("testdata", "bastion.yaml")
	if *update {
		require.NoError(t, os.WriteFile(file, actual, 0o600))
	}

	golden, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(golden), string(actual))
}

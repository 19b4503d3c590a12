// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package importer

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/kubelet"
)

func TestImportOutcome(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		endpoint string
		want     kubelet.Outcome
	}{
		"HTTP":            {endpoint: "https://images.local/disk.qcow2", want: kubelet.Succeeded(importMessage)},
		"HTTPNotFound":    {endpoint: "https://images.local/404/disk.qcow2", want: kubelet.Failed(notFoundMessage)},
		"Registry":        {endpoint: "docker://registry.local/disk:1", want: kubelet.Succeeded(importMessage)},
		"RegistryMissing": {endpoint: "docker://registry.local/a/missing:1", want: kubelet.Failed(noManifestMessage)},
		"Blank":           {endpoint: "", want: kubelet.Succeeded(importMessage)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{
				Name: cdiImporter,
				Env:  []corev1.EnvVar{{Name: cdiImporterEndpoint, Value: tc.endpoint}},
			}}}}
			require.Equal(t, tc.want, importOutcome(pod))
		})
	}
}

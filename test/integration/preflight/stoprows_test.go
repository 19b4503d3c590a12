// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"testing"

	"github.com/gardener/machine-controller-manager/pkg/util/provider/machinecodes/codes"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/behaviour"
)

// importerFailures are importers that do not start, or are killed.
func importerFailures() []harness.Failure {
	return []harness.Failure{
		{
			By:   "importer without its Secret",
			Heal: makeSecret("registry-creds"),
			Want: "SecretNotFound",
			Code: codes.FailedPrecondition,
			Root: `{"source":{"registry":{"url":"docker://registry.example.com/worker:1","secretRef":"registry-creds"}},
				"storage":{"storageClassName":"immediate","resources":{"requests":{"storage":"1Gi"}}}}`,
		},
		{
			By:   "importer without the Secret of its headers",
			Heal: makeSecret("headers"),
			Want: "SecretNotFound",
			Code: codes.FailedPrecondition,
			Root: `{"source":{"http":{"url":"https://images.example.com/worker.qcow2","secretExtraHeaders":["headers"]}},
				"storage":{"storageClassName":"immediate","resources":{"requests":{"storage":"1Gi"}}}}`,
		},
		importFails("importer out of memory", behaviour.ImportOutOfMemory, "ImportOutOfMemory", codes.FailedPrecondition),
	}
}

// stoppedFailure is the row of a machine that a user stops while its disk is cloned.
func stoppedFailure() harness.Failure {
	var name string

	return harness.Failure{
		By:   "virtctl stop",
		Root: harness.CloneRoot,
		Want: "MachineStopped",
		Code: codes.FailedPrecondition,
		Provoke: func(t *testing.T, s *harness.Shoot) {
			t.Helper()
			s.ImportImage(t, "image")
			s.Annotate(t, behaviour.CloneLatencyAnnotation, "10m")
		},
		Spoil: func(t *testing.T, s *harness.Shoot, m *harness.Machine) {
			t.Helper()

			name = m.Name()
			setRunStrategy(t, s, name, kubevirtv1.RunStrategyHalted)
		},
		Heal: func(t *testing.T, s *harness.Shoot) {
			t.Helper()
			s.Annotate(t, behaviour.CloneLatencyAnnotation, "0s")
			setRunStrategy(t, s, name, kubevirtv1.RunStrategyAlways)
		},
	}
}

func setRunStrategy(t *testing.T, s *harness.Shoot, name string, strategy kubevirtv1.VirtualMachineRunStrategy) {
	t.Helper()

	_, err := s.KubeVirt.KubevirtV1().VirtualMachines(s.ProviderNamespace).Patch(t.Context(), name, types.MergePatchType,
		harness.MarshalPatch(t, map[string]any{"spec": map[string]any{"runStrategy": strategy}}), metav1.PatchOptions{})
	require.NoError(t, err)
}

func makeSecret(name string) func(*testing.T, *harness.Shoot) {
	return func(t *testing.T, s *harness.Shoot) {
		t.Helper()

		_, err := s.Kube.CoreV1().Secrets(s.ProviderNamespace).Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		require.NoError(t, err)
	}
}

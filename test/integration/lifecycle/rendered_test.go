// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/yaml"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

// TestGoldenFilesAreValid validates render's golden files with the real virt-api and its webhooks.
func TestGoldenFilesAreValid(t *testing.T) {
	t.Parallel()

	s := harness.NewShoot(t)
	files, err := filepath.Glob("../../../pkg/render/testdata/*.golden.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)

	for _, path := range files {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".golden.yaml"), func(t *testing.T) {
			t.Parallel()

			raw, err := os.ReadFile(path)
			require.NoError(t, err)

			documents := bytes.Split(raw, []byte("\n---\n"))
			require.GreaterOrEqual(t, len(documents), 2, "a golden file is one or two Secrets, perhaps a golden image, and a VirtualMachine")
			requireValidImage(t, s, documents[len(documents)-2])

			vm := &kubevirtv1.VirtualMachine{}
			require.NoError(t, yaml.UnmarshalStrict(documents[len(documents)-1], vm))
			vm.Namespace = s.ProviderNamespace

			_, err = s.KubeVirt.KubevirtV1().VirtualMachines(s.ProviderNamespace).Create(t.Context(), vm, metav1.CreateOptions{
				DryRun:          []string{metav1.DryRunAll},
				FieldValidation: metav1.FieldValidationStrict,
			})
			if refusal := passtRefusal.Get(t); refusal != "" && strings.Contains(path, "passt") {
				require.ErrorContains(t, err, refusal)
			} else {
				require.NoError(t, err)
			}
		})
	}
}

// requireValidImage validates a document with the real cdi-apiserver if it is a golden image.
func requireValidImage(t *testing.T, s *harness.Shoot, document []byte) {
	t.Helper()

	image := &cdiv1beta1.DataVolume{}
	require.NoError(t, yaml.Unmarshal(document, image))

	if image.Kind != "DataVolume" {
		return
	}

	image.Namespace = s.ProviderNamespace

	_, err := s.CDI.CdiV1beta1().DataVolumes(s.ProviderNamespace).Create(t.Context(), image, dryRun())
	require.NoError(t, err)
}

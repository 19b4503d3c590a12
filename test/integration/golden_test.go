package integration

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// TestGoldenFilesAreValid has the real virt-api, with its webhooks, judge what render's golden files hold.
func TestGoldenFilesAreValid(t *testing.T) {
	t.Parallel()

	s := newShoot(t)
	files, err := filepath.Glob("../../pkg/spi/render/testdata/*.golden.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)

	for _, path := range files {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".golden.yaml"), func(t *testing.T) {
			t.Parallel()

			raw, err := os.ReadFile(path)
			require.NoError(t, err)

			documents := bytes.Split(raw, []byte("\n---\n"))
			require.GreaterOrEqual(t, len(documents), 2, "a golden file is one or two Secrets and a VirtualMachine")

			vm := &kubevirtv1.VirtualMachine{}
			require.NoError(t, yaml.UnmarshalStrict(documents[len(documents)-1], vm))
			vm.Namespace = s.ProviderNamespace

			_, err = s.kubevirt.KubevirtV1().VirtualMachines(s.ProviderNamespace).Create(t.Context(), vm, metav1.CreateOptions{
				DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict,
			})
			require.NoError(t, err)
		})
	}
}

package docs

import (
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"testing"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1/validation"
)

// fragment matches a block of YAML.
var fragment = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$")

// TestFragmentsAreValid puts each fragment of a ProviderSpec on the page in the place of what the minimal MachineClass has there.
func TestFragmentsAreValid(t *testing.T) {
	t.Parallel()

	page, err := os.ReadFile("operations.md")
	require.NoError(t, err)

	fragments := fragment.FindAllStringSubmatch(string(page), -1)
	require.NotEmpty(t, fragments)

	for _, found := range fragments {
		spec := minimalSpec(t)

		var fields map[string]any

		require.NoError(t, yaml.UnmarshalStrict([]byte(found[1]), &fields), found[1])
		maps.Copy(spec, fields)

		raw, err := json.Marshal(spec)
		require.NoError(t, err)

		_, errs := validation.Decode(raw, validation.Options{Template: validation.TemplateSafe})
		require.Empty(t, errs, found[1])
	}
}

// minimalSpec returns the ProviderSpec of the shipped minimal MachineClass.
func minimalSpec(t *testing.T) map[string]any {
	t.Helper()

	raw, err := os.ReadFile("../kubernetes/machineclass/minimal.yaml")
	require.NoError(t, err)

	var class v1alpha1.MachineClass

	require.NoError(t, yaml.Unmarshal(raw, &class))

	var spec map[string]any

	require.NoError(t, json.Unmarshal(class.ProviderSpec.Raw, &spec))

	return spec
}

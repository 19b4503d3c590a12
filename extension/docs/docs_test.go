// Package docs tests the pages of the extension. Links are tested with those of the driver.
package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/validation"
)

// TestFieldTable requires that the tests exist that fields.md names.
func TestFieldTable(t *testing.T) {
	t.Parallel()

	var sources strings.Builder

	for _, pattern := range []string{"../pkg/*/*/*_test.go", "../pkg/*/*/*/*_test.go", "../test/integration/*_test.go"} {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		require.NotEmpty(t, files)

		for _, file := range files {
			content, err := os.ReadFile(file)
			require.NoError(t, err)
			sources.Write(content)
		}
	}

	page, err := os.ReadFile("fields.md")
	require.NoError(t, err)

	for _, name := range regexp.MustCompile(`\bTest\w+`).FindAllString(string(page), -1) {
		require.Contains(t, sources.String(), "func "+name+"(")
	}
}

// fragment matches a YAML block.
var fragment = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$")

// TestFragments decodes the YAML blocks of all pages strictly. Package imagevector tests the block with
// images.
func TestFragments(t *testing.T) {
	t.Parallel()

	pages, err := filepath.Glob("*.md")
	require.NoError(t, err)

	found := 0

	for _, page := range append(pages, "../README.md") {
		content, err := os.ReadFile(page)
		require.NoError(t, err)

		for _, block := range fragment.FindAllSubmatch(content, -1) {
			if strings.HasPrefix(string(block[1]), "images:") {
				continue
			}

			raw, err := yaml.YAMLToJSONStrict(block[1])
			require.NoError(t, err)

			config := &api.CloudProfileConfig{}
			require.Empty(t, api.Decode(&runtime.RawExtension{Raw: raw}, field.NewPath("config"), config), page)
			require.Empty(t, validation.VolumeClasses(config.VolumeClasses, field.NewPath("volumeClasses")), page)

			found++
		}
	}

	require.Positive(t, found)
}

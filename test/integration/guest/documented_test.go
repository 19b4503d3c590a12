//go:build guest

package guest

import (
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// yamlBlock matches the content of a YAML block.
var yamlBlock = regexp.MustCompile("(?s)```yaml\n(.*?)```")

// documentedNetwork returns the fragment of a ProviderSpec from docs/guest-images.md that configures the
// network of a guest for a data source, as JSON.
func documentedNetwork(t *testing.T, dataSource string) string {
	t.Helper()

	page, err := os.ReadFile("../../../docs/guest-images.md")
	require.NoError(t, err)

	section := regexp.MustCompile(`(?s)\n## The network after a restart\n(.*?)\n## `).FindSubmatch(page)
	require.NotNil(t, section)

	for _, block := range yamlBlock.FindAllSubmatch(section[1], -1) {
		var fragment struct {
			CloudInit struct {
				Type        string `json:"type"`
				NetworkData string `json:"networkData"`
			} `json:"cloudInit"`
		}

		require.NoError(t, yaml.UnmarshalStrict(block[1], &fragment), string(block[1]))

		if fragment.CloudInit.Type == dataSource {
			require.NotEmpty(t, fragment.CloudInit.NetworkData)

			data, err := yaml.YAMLToJSON(block[1])
			require.NoError(t, err)

			return string(data)
		}
	}

	require.Fail(t, "no fragment", dataSource)

	return ""
}

// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

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

// documentedNetwork returns the fragment of a ProviderSpec from docs/images.md that configures the
// network of a guest with ConfigDrive, as JSON.
func documentedNetwork(t *testing.T) string {
	t.Helper()

	page, err := os.ReadFile("../../../docs/images.md")
	require.NoError(t, err)

	section := regexp.MustCompile(`(?s)\n## The network after a restart\n(.*?)\n## `).FindSubmatch(page)
	require.NotNil(t, section)

	blocks := yamlBlock.FindAllSubmatch(section[1], -1)
	require.Len(t, blocks, 1)
	require.Contains(t, string(blocks[0][1]), "type: ConfigDrive")

	data, err := yaml.YAMLToJSONStrict(blocks[0][1])
	require.NoError(t, err)

	return string(data)
}

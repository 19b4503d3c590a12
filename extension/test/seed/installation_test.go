package seed

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestGardenerVersion(t *testing.T) {
	t.Parallel()

	content, err := os.ReadFile(filepath.Join(root(), "extension", "go.mod"))
	require.NoError(t, err)
	require.Contains(t, string(content), "\tgithub.com/gardener/gardener "+GardenerVersion+"\n")
}

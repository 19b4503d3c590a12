package seed

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// TestWithKubeconfig requires the Secret of the garden to be that of the documentation, with another
// kubeconfig and nothing else.
func TestWithKubeconfig(t *testing.T) {
	t.Parallel()

	manifest, err := os.ReadFile(Example(ExampleSecret))
	require.NoError(t, err)

	changed, err := withKubeconfig(manifest, []byte("another"))
	require.NoError(t, err)

	var want, got corev1.Secret

	require.NoError(t, yaml.UnmarshalStrict(manifest, &want))
	require.NoError(t, yaml.UnmarshalStrict(changed, &got))

	want.StringData = map[string]string{"kubeconfig": "another"}
	require.Equal(t, want, got)
}

package seed

import (
	"testing"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

func TestAccountOf(t *testing.T) {
	t.Parallel()

	for namespace, want := range map[string]Account{
		"shoot-machines": AccountIn("shoot-machines"), "": AccountIn("default"), "gardener": AccountForNamespaces(),
	} {
		kubeconfig, err := yaml.Marshal(kubeconfigOf(&rest.Config{Host: "https://provider.example.com"}, namespace, map[string]any{"token": "abc"}))
		require.NoError(t, err)

		account, err := accountOf(kubeconfig)
		require.NoError(t, err)
		require.Equal(t, want, account)
	}

	_, err := accountOf([]byte("{"))
	require.Error(t, err)
}

func TestCreatesNamespace(t *testing.T) {
	t.Parallel()

	for config, want := range map[string]bool{
		`{"namespace": {"create": true}}`:  true,
		`{"namespace": {"create": false}}`: false,
		`{"networks": {}}`:                 false,
		`[]`:                               false,
	} {
		shoot := &gardencorev1beta1.Shoot{}
		shoot.Spec.Provider.InfrastructureConfig = &runtime.RawExtension{Raw: []byte(config)}
		require.Equal(t, want, createsNamespace(shoot), config)
	}

	require.False(t, createsNamespace(&gardencorev1beta1.Shoot{}))
}

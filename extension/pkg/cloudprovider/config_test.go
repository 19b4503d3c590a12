// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package cloudprovider

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestReadConfig_Upstream reads each field of KubeVirt's own cloud-controller-manager v0.6.0.
func TestReadConfig_Upstream(t *testing.T) {
	t.Parallel()

	config, err := ReadConfig([]byte(`
kubeconfig: /etc/kubernetes/provider/kubeconfig
namespace: machines
infraLabels: {owner: a}
loadBalancer:
  enabled: false
  creationPollInterval: 5
  creationPollTimeout: 300
  selectorless: true
  enableEPSController: true
instancesV2:
  enabled: false
  zoneAndRegionEnabled: false
`))
	require.NoError(t, err)
	require.Equal(t, "/etc/kubernetes/provider/kubeconfig", config.Kubeconfig)
	require.Equal(t, map[string]string{"owner": "a"}, config.InfraLabels)
	require.False(t, config.LoadBalancer.Enabled)
	require.True(t, config.LoadBalancer.Selectorless)
	require.False(t, config.InstancesV2.Enabled)
	require.False(t, config.InstancesV2.ZoneAndRegionEnabled)
}

// TestReadConfig_Defaults has upstream's defaults.
func TestReadConfig_Defaults(t *testing.T) {
	t.Parallel()

	config, err := ReadConfig([]byte("kubeconfig: a"))
	require.NoError(t, err)
	require.Equal(t, &Config{
		Kubeconfig: "a", LoadBalancer: LoadBalancerConfig{Enabled: true}, InstancesV2: InstancesConfig{Enabled: true, ZoneAndRegionEnabled: true},
	}, config)
}

// TestReadConfig_Invalid names the field and the remedy.
func TestReadConfig_Invalid(t *testing.T) {
	t.Parallel()

	for name, tc := range map[string]struct{ raw, want string }{
		"not YAML":           {"{", "cloud-config must be YAML"},
		"unknown field":      {"namespace: a\nloadBalancer: {selectorles: true}", "cloud-config.loadBalancer.selectorles"},
		"wrong type":         {"namespace: a\nloadBalancer: {enabled: 3}", "cloud-config.loadBalancer.enabled"},
		"no namespace":       {"loadBalancer: {enabled: true}", "cloud-config.namespace"},
		"not an annotation":  {"namespace: a\nloadBalancer: {allowedAnnotations: ['a b']}", "cloud-config.loadBalancer.allowedAnnotations[0]"},
		"all annotations":    {"namespace: a\nloadBalancer: {allowedAnnotations: ['*']}", "cloud-config.loadBalancer.allowedAnnotations[0]"},
		"class":              {"namespace: a\nloadBalancer: {class: 'a b'}", "cloud-config.loadBalancer.class"},
		"labels":             {"namespace: a\ninfraLabels: {owner: 'a b'}", "cloud-config.infraLabels"},
		"annotation of ours": {"namespace: a\nloadBalancer: {allowedAnnotations: ['kubevirt.provider.extensions.gardener.cloud/*']}", "belongs to another program"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			_, err := ReadConfig([]byte(tc.raw))
			require.ErrorContains(t, err, tc.want)
		})
	}
}

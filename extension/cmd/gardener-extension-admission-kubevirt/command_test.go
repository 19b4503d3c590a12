// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/gardener/gardener/pkg/chartrenderer"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/charts"
)

// TestNewCommand_ChartFlags requires the command to have the flags of the chart. With the chart's
// defaults, they have the defaults of the command, except for names of the installation and ports.
func TestNewCommand_ChartFlags(t *testing.T) {
	t.Parallel()

	release, err := chartrenderer.NewWithServerVersion(&version.Info{GitVersion: "v1.34.3"}).
		RenderEmbeddedFS(charts.Installation, charts.AdmissionRuntimePath, "provider-kubevirt", "garden", nil)
	require.NoError(t, err)

	deployment := &appsv1.Deployment{}
	require.NoError(t, yaml.UnmarshalStrict([]byte(release.FileContent("deployment.yaml")), deployment))

	flags := newCommand().Flags()
	changed := map[string]string{}
	require.NoError(t, flags.Parse(deployment.Spec.Template.Spec.Containers[0].Args))
	flags.Visit(func(f *pflag.Flag) {
		if f.Value.String() != f.DefValue {
			changed[f.Name] = f.Value.String()
		}
	})

	require.Equal(t, map[string]string{
		"webhook-config-cert-dir":     "/tmp/webhook",
		"webhook-config-mode":         "url",
		"webhook-config-namespace":    "garden",
		"webhook-config-server-port":  "10250",
		"webhook-config-service-port": "443",
		"webhook-config-url":          "gardener-extension-admission-kubevirt.garden:443",
	}, changed)
}

// TestGardenConfigOr requires the kubeconfig of the garden cluster to find the token beside it, and the runtime
// cluster to be the garden cluster without one.
func TestGardenConfigOr(t *testing.T) {
	t.Setenv("GARDEN_KUBECONFIG", "")

	runtimeConfig := &rest.Config{Host: "https://runtime.example.com"}
	config, err := gardenConfigOr(runtimeConfig)
	require.NoError(t, err)
	require.Same(t, runtimeConfig, config)
	requireNoQueue(t, config)

	folder := t.TempDir()
	t.Setenv("GARDEN_KUBECONFIG", filepath.Join(folder, "kubeconfig"))

	_, err = gardenConfigOr(runtimeConfig)
	require.ErrorIs(t, err, fs.ErrNotExist)

	for file, content := range map[string]string{"token": "abc", "kubeconfig": `
apiVersion: v1
kind: Config
current-context: garden
contexts: [{name: garden, context: {cluster: garden, user: admission}}]
clusters: [{name: garden, cluster: {server: "https://garden.example.com"}}]
users: [{name: admission, user: {tokenFile: token}}]
`} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, file), []byte(content), 0o600))
	}

	config, err = gardenConfigOr(runtimeConfig)
	require.NoError(t, err)
	require.Equal(t, "https://garden.example.com", config.Host)
	require.Equal(t, filepath.Join(folder, "token"), config.BearerTokenFile, "read again when it is renewed")
	requireNoQueue(t, config)
}

// requireNoQueue requires that the reads of a hundred Shoots which change at the same time do not wait for each
// other longer than the webhooks may take (10 s).
func requireNoQueue(t *testing.T, config *rest.Config) {
	t.Helper()

	const reads, timeout = 2 * 100, 10

	require.Less(t, float32(reads-config.Burst)/config.QPS, float32(timeout))
	require.Positive(t, config.QPS, "client-go's default is 5")
}

// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"os"
	"strings"
	"testing"

	extensionswebhook "github.com/gardener/gardener/extensions/pkg/webhook"
	"github.com/gardener/gardener/pkg/chartrenderer"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/yaml"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/charts"
)

// TestNewCommand_ChartFlags requires the command to have the flags of the chart. With the chart's
// defaults, they have the defaults of the command, except for names of the installation and ports.
func TestNewCommand_ChartFlags(t *testing.T) {
	t.Parallel()

	changed := map[string]string{}

	flagsOf(t, nil).Visit(func(f *pflag.Flag) {
		if f.Value.String() != f.DefValue {
			changed[f.Name] = f.Value.String()
		}
	})

	require.Equal(t, map[string]string{
		"heartbeat-namespace":         "extension-provider-kubevirt",
		"webhook-config-cert-dir":     "/tmp/webhook",
		"webhook-config-namespace":    "extension-provider-kubevirt",
		"webhook-config-server-port":  "10250",
		"webhook-config-service-port": "443",
	}, changed)
}

// TestNewCommand_OtherChartValues requires the values of the chart to reach the flags.
func TestNewCommand_OtherChartValues(t *testing.T) {
	t.Parallel()

	content, err := os.ReadFile("../../charts/testdata/extension.yaml")
	require.NoError(t, err)

	values := map[string]any{}
	require.NoError(t, yaml.UnmarshalStrict(content, &values))

	flags := flagsOf(t, values)
	gardenerVersion, found, err := unstructured.NestedString(values, "gardener", "version")
	require.NoError(t, err)
	require.True(t, found)

	for name, want := range map[string]string{
		"infrastructure-max-concurrent-reconciles": "20",
		"controlplane-max-concurrent-reconciles":   "21",
		"worker-max-concurrent-reconciles":         "22",
		"healthcheck-max-concurrent-reconciles":    "23",
		"heartbeat-renew-interval-seconds":         "60",
		"ignore-operation-annotation":              "true",
		"disable-controllers":                      "[healthcheck,heartbeat]",
		"disable-webhooks":                         "[cloudprovider]",
		"webhook-config-service-port":              "8443",
		"webhook-config-server-port":               "10251",
		"metrics-bind-address":                     ":9080",
		"health-bind-address":                      ":9081",
		"log-level":                                "debug",
		"log-format":                               "text",
		"gardener-version":                         gardenerVersion,
		"self-hosted-shoot-cluster":                "true",
		"allow-internal-provider-servers":          "true",
	} {
		require.Equal(t, want, flags.Lookup(name).Value.String(), name)
	}
}

// TestNewCommand_LocalSetup parses the arguments of the command on the page local-setup.md.
func TestNewCommand_LocalSetup(t *testing.T) {
	t.Parallel()

	page, err := os.ReadFile("../../docs/development/local-setup.md")
	require.NoError(t, err)

	_, arguments, found := strings.Cut(strings.ReplaceAll(string(page), "\\\n", " "), "go run ./cmd/gardener-extension-provider-kubevirt ")
	require.True(t, found)

	arguments, _, _ = strings.Cut(arguments, "\n")

	flags := newCommand().Flags()
	require.NoError(t, flags.Parse(strings.Fields(arguments)))
	require.Empty(t, flags.Args())
}

// TestAddWebhooks_OfShoots requires ControlPlanes to be reconciled without the webhook in the shoots, too:
// Gardener's library refuses to if it expects a configuration that does not exist.
func TestAddWebhooks_OfShoots(t *testing.T) {
	t.Parallel()

	for flag, want := range map[string][]string{
		"--disable-webhooks=":              {"shoot.kubevirt.extensions.gardener.cloud"},
		"--disable-webhooks=cloudprovider": {"shoot.kubevirt.extensions.gardener.cloud"},
		"--disable-webhooks=shoot":         nil,
		"--disable-webhooks=*":             nil,
	} {
		t.Run(flag, func(t *testing.T) {
			t.Parallel()

			o := newOptions()
			flags := pflag.NewFlagSet("", pflag.ContinueOnError)
			o.webhooks.AddFlags(flags)
			require.NoError(t, flags.Parse([]string{flag, "--webhook-config-mode=url", "--webhook-config-url=127.0.0.1:10250"}))
			require.NoError(t, o.webhooks.Complete())
			require.NoError(t, o.addWebhooks(t.Context(), newManager(t)))

			if want == nil {
				require.Nil(t, o.shootWebhooks)

				return
			}

			configs, ok := o.shootWebhooks.Load().(*extensionswebhook.Configs)
			require.True(t, ok)

			names := []string{}
			for _, w := range configs.MutatingWebhookConfig.Webhooks {
				names = append(names, w.Name)
			}

			require.Equal(t, want, names)
		})
	}
}

// newManager returns a manager that is never started, and knows the kinds of the webhooks.
func newManager(t *testing.T) manager.Manager {
	t.Helper()

	scheme, err := newScheme()
	require.NoError(t, err)

	mapper := meta.NewDefaultRESTMapper(scheme.PrioritizedVersionsAllGroups())
	for kind := range scheme.AllKnownTypes() {
		mapper.Add(kind, meta.RESTScopeNamespace)
	}

	mgr, err := manager.New(&rest.Config{}, manager.Options{
		Scheme:         scheme,
		Metrics:        metricsserver.Options{BindAddress: "0"},
		WebhookServer:  webhook.NewServer(webhook.Options{CertDir: t.TempDir()}),
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return mapper, nil },
	})
	require.NoError(t, err)

	return mgr
}

// flagsOf parses the arguments of the chart's Deployment.
func flagsOf(t *testing.T, values map[string]any) *pflag.FlagSet {
	t.Helper()

	release, err := chartrenderer.NewWithServerVersion(&version.Info{GitVersion: "v1.34.3"}).
		RenderEmbeddedFS(charts.Installation, charts.ExtensionPath, "provider-kubevirt", "extension-provider-kubevirt", values)
	require.NoError(t, err)

	deployment := &appsv1.Deployment{}
	require.NoError(t, yaml.UnmarshalStrict([]byte(release.FileContent("deployment.yaml")), deployment))

	flags := newCommand().Flags()
	require.NoError(t, flags.Parse(deployment.Spec.Template.Spec.Containers[0].Args))

	return flags
}

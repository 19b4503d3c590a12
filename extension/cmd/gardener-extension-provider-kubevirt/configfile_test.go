// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

const wholeFile = `apiVersion: kubevirt.provider.extensions.config.gardener.cloud/v1alpha1
kind: ControllerConfiguration
clientConnection: {qps: 50, burst: 60}
controllers:
  infrastructure: {concurrentSyncs: 1}
  controlplane: {concurrentSyncs: 2}
  worker: {concurrentSyncs: 3}
  healthcheck: {concurrentSyncs: 4, syncPeriod: 2m}
  bastion: {concurrentSyncs: 5}
  ignoreOperationAnnotation: true
allowInternalProviderServers: true
workloadIdentity: {allowedServers: ["https://a.example.com", "https://b.example.com:6443"]}
logLevel: debug
logFormat: text
`

// configured returns the options after the file and the command line were read.
func configured(t *testing.T, content string, args ...string) (*options, error) {
	t.Helper()

	file := filepath.Join(t.TempDir(), "config.yaml")
	require.NoError(t, os.WriteFile(file, []byte(content), 0o600))

	o := newOptions()
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	o.addFlags(flags)
	require.NoError(t, flags.Parse(append(args, "--config-file="+file)))

	return o, o.configure(flags)
}

func TestConfigure(t *testing.T) {
	t.Parallel()

	o, err := configured(t, wholeFile, "--worker-max-concurrent-reconciles=9", "--log-level=error")
	require.NoError(t, err)
	require.InDelta(t, 50, o.qps, 0)
	require.Equal(t, 60, o.burst)
	require.Equal(t, 1, o.infrastructure.MaxConcurrentReconciles)
	require.Equal(t, 2, o.controlPlane.MaxConcurrentReconciles)
	require.Equal(t, 9, o.worker.MaxConcurrentReconciles, "the flag takes precedence")
	require.Equal(t, 4, o.healthCheck.MaxConcurrentReconciles)
	require.Equal(t, 2*time.Minute, o.healthCheckPeriod)
	require.Equal(t, 5, o.bastion.MaxConcurrentReconciles)
	require.True(t, o.reconciler.IgnoreOperationAnnotation)
	require.True(t, o.servers.AllowInternal)
	require.Equal(t, []string{"https://a.example.com", "https://b.example.com:6443"}, o.identities.AllowedServers)
	require.Equal(t, "error", o.manager.LogLevel, "the flag takes precedence")
	require.Equal(t, "text", o.manager.LogFormat)

	before := newOptions()
	o, err = configured(t, wholeFile[:len("apiVersion: kubevirt.provider.extensions.config.gardener.cloud/v1alpha1\nkind: ControllerConfiguration\n")])
	require.NoError(t, err)
	require.InDelta(t, before.qps, o.qps, 0, "fields that are not set keep the defaults")
	require.Equal(t, before.infrastructure, o.infrastructure)
}

func TestConfigure_Refuses(t *testing.T) {
	t.Parallel()

	const head = "apiVersion: kubevirt.provider.extensions.config.gardener.cloud/v1alpha1\nkind: ControllerConfiguration\n"

	for content, want := range map[string]string{
		wholeFile + "metrics: true\n":                    "metrics: ",
		"kind: ControllerConfiguration\n":                "apiVersion: ",
		wholeFile[:len(wholeFile)-len("text\n")] + "1\n": "logFormat: ",
		"a: [":                                  "yaml",
		head + "clientConnection: {qps: -1}\n":  "clientConnection.qps: Invalid",
		head + "clientConnection: {burst: 0}\n": "clientConnection.burst: Invalid",
		head + "controllers: {worker: {concurrentSyncs: 0}}\n":       "controllers.worker.concurrentSyncs: Invalid",
		head + "controllers: {healthcheck: {concurrentSyncs: -2}}\n": "controllers.healthcheck.concurrentSyncs: Invalid",
		head + "controllers: {healthcheck: {syncPeriod: often}}\n":   "controllers.healthcheck.syncPeriod: ",
		head + "controllers: {bastion: {concurrentSyncs: 0}}\n":      "controllers.bastion.concurrentSyncs: Invalid",
	} {
		_, err := configured(t, content)
		require.ErrorContains(t, err, "--config-file: ")
		require.ErrorContains(t, err, want)
	}

	o, err := configured(t, head+"controllers: {healthcheck: {syncPeriod: 29s}}\n")
	require.NoError(t, err)
	require.EqualError(t, o.validate(), "--healthcheck-sync-period: 29s is less than 30s")

	o = newOptions()
	o.configFile = "absent.yaml"
	require.ErrorIs(t, o.configure(pflag.NewFlagSet("", pflag.ContinueOnError)), os.ErrNotExist)
}

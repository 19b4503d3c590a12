// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"maps"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/cloud-provider/app/config"
	aliases "k8s.io/cloud-provider/names"
	"k8s.io/cloud-provider/options"
	"k8s.io/component-base/version"
	manager "k8s.io/controller-manager/app"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/cloudprovider"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/kubevirt"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/hostile"
)

// TestNewCommand has the flags of the chart.
func TestNewCommand(t *testing.T) {
	t.Parallel()

	template, err := os.ReadFile("../../charts/internal/seed-controlplane/templates/cloud-controller-manager.yaml")
	require.NoError(t, err)

	command, err := newCommand(t.Context().Done())
	require.NoError(t, err)

	found := 0

	for _, flag := range strings.Fields(string(template)) {
		if name, _, is := strings.Cut(strings.TrimPrefix(flag, "--"), "="); is && strings.HasPrefix(flag, "--") {
			require.NotNil(t, command.Flags().Lookup(name), name)

			found++
		}
	}

	require.Greater(t, found, 10)
	require.Equal(t, "kubevirt", command.Flags().Lookup("cloud-provider").DefValue)
}

// TestPrintingVersion_Commit prints what the other programs print, too.
func TestPrintingVersion_Commit(t *testing.T) {
	t.Parallel()

	command, err := newCommand(t.Context().Done())
	require.NoError(t, err)

	output := &strings.Builder{}
	command.SetOut(output)
	command.SetArgs([]string{"--version"})
	require.NoError(t, command.Execute())
	require.Equal(t, "kubevirt-cloud-controller-manager version "+version.Get().GitVersion+" "+version.Get().GitCommit+"\n", output.String())
}

// TestControllers_Names accepts the values of --controllers that KubeVirt's own program accepts. Those that this program
// does not need start nothing.
func TestControllers_Names(t *testing.T) {
	t.Parallel()

	for _, value := range []string{"*", "*,-node-route-controller", "*,-route", "*,-kubevirt_eps_controller", "cloud-node-controller,kubevirt_eps_controller"} {
		managed, err := options.NewCloudControllerManagerOptions()
		require.NoError(t, err)

		managed.KubeCloudShared.CloudProvider.Name = "kubevirt"
		managed.Generic.Controllers = strings.Split(value, ",")
		names := slices.Collect(maps.Keys(controllers()))
		require.NoError(t, managed.Validate(names, nil, aliases.CCMControllerAliases(), names, nil), value)
	}

	for _, name := range []string{upstreamEndpoints, aliases.NodeRouteController} {
		all := controllers()
		config := &config.Config{}
		config.ComponentConfig.KubeCloudShared.ConfigureCloudRoutes = true
		start := all[name].Constructor(all[name].InitContext, config.Complete(), &cloudprovider.Cloud{})

		_, started, err := start(t.Context(), manager.ControllerContext{})
		require.NoError(t, err)
		require.False(t, started)
	}
}

// TestNewCloud_Disabled provides no load balancers without the service controller.
func TestNewCloud_Disabled(t *testing.T) {
	t.Parallel()

	folder := t.TempDir()
	server := httptest.NewTLSServer(nil)
	t.Cleanup(server.Close)

	kubeconfig := filepath.Join(folder, "kubeconfig")
	require.NoError(t, os.WriteFile(kubeconfig, hostile.Kubeconfig(t, server), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "cloud-config"), []byte("namespace: machines\nkubeconfig: "+kubeconfig), 0o600))

	for controller, balances := range map[string]bool{"*": true, "-" + aliases.ServiceLBController: false, "-" + aliases.CloudNodeController: true} {
		settings := &config.Config{}
		settings.ComponentConfig.KubeCloudShared.ClusterName = "a"
		settings.ComponentConfig.KubeCloudShared.CloudProvider.CloudConfigFile = filepath.Join(folder, "cloud-config")
		settings.ComponentConfig.Generic.Controllers = []string{"*", controller}

		cloud, err := newCloud(settings.Complete(), kubevirt.ServerOptions{})
		require.NoError(t, err)

		_, ok := cloud.LoadBalancer()
		require.Equal(t, balances, ok, controller)

		settings.ComponentConfig.KubeCloudShared.ClusterName = ""
		_, err = newCloud(settings.Complete(), kubevirt.ServerOptions{})
		require.ErrorContains(t, err, "--cluster-name")
	}
}

// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"maps"
	"os"

	"github.com/spf13/cobra"
	provider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/app"
	"k8s.io/cloud-provider/app/config"
	"k8s.io/cloud-provider/names"
	"k8s.io/cloud-provider/options"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/version"
	manager "k8s.io/controller-manager/app"
	"k8s.io/controller-manager/controller"
	"k8s.io/klog/v2"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/cloudprovider"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/kubevirt"
)

func newCommand(stop <-chan struct{}) (*cobra.Command, error) {
	managed, err := options.NewCloudControllerManagerOptions()
	if err != nil {
		return nil, fmt.Errorf("create the options: %w", err)
	}

	managed.KubeCloudShared.CloudProvider.Name = cloudprovider.Name

	servers := kubevirt.ServerOptions{}
	flags := cliflag.NamedFlagSets{}
	servers.AddFlags(flags.FlagSet("provider cluster"))

	command := app.NewCloudControllerManagerCommand(managed, func(c *config.CompletedConfig) provider.Interface {
		cloud, err := newCloud(c, servers)
		if err != nil {
			klog.ErrorS(err, "Failed to start")
			klog.FlushAndExit(klog.ExitFlushTimeout, 1)
		}

		return cloud
	}, controllers(), names.CCMControllerAliases(), flags, stop)
	command.Use = "kubevirt-cloud-controller-manager"
	command.Short = "Run Kubernetes' cloud controllers for Nodes that are virtual machines of KubeVirt."
	command.Long = command.Short + `
It initializes Nodes, removes those whose machines are gone, and makes a Service of type LoadBalancer in the provider
cluster for each of the cluster. --cloud-config is a file with the kubeconfig and the namespace of the machines.`
	command.SilenceUsage = true
	command.RunE = printingVersion(command.RunE)

	return command, nil
}

// printingVersion prints the name, the version and the commit of the program for --version; run would print "Kubernetes" and
// the version.
func printingVersion(run func(*cobra.Command, []string) error) func(*cobra.Command, []string) error {
	return func(command *cobra.Command, args []string) error {
		if command.Flag("version").Value.String() != "true" {
			return run(command, args)
		}

		_, err := fmt.Fprintln(command.OutOrStdout(), command.Name(), "version", version.Get().GitVersion, version.Get().GitCommit)

		return err
	}
}

// upstreamEndpoints is a controller of KubeVirt's own program, which --controllers may name.
const upstreamEndpoints = "kubevirt_eps_controller"

// controllers are those that --controllers can name, as in KubeVirt's own program: those of Kubernetes, of which the one
// for routes starts nothing, since the network plug-in makes them, and one that this program does not need.
func controllers() map[string]app.ControllerInitFuncConstructor {
	all := maps.Clone(app.DefaultInitFuncConstructors)
	all[upstreamEndpoints] = app.ControllerInitFuncConstructor{
		Constructor: func(app.ControllerInitContext, *config.CompletedConfig, provider.Interface) app.InitFunc {
			return func(context.Context, manager.ControllerContext) (controller.Interface, bool, error) {
				return nil, false, nil
			}
		},
	}

	return all
}

// newCloud reads the cloud-config.
func newCloud(c *config.CompletedConfig, servers kubevirt.ServerOptions) (*cloudprovider.Cloud, error) {
	shared := c.ComponentConfig.KubeCloudShared

	raw, err := os.ReadFile(shared.CloudProvider.CloudConfigFile)
	if err != nil {
		return nil, fmt.Errorf("read the file of --cloud-config: %w", err)
	}

	cloud, err := cloudprovider.ReadConfig(raw)
	if err != nil {
		return nil, err
	}

	// Without the service controller, nothing may provide load balancers.
	if !manager.IsControllerEnabled(names.ServiceLBController, app.ControllersDisabledByDefault, c.ComponentConfig.Generic.Controllers) {
		cloud.LoadBalancer.Enabled = false
	}

	return cloudprovider.New(cloud, shared.ClusterName, servers.Servers())
}

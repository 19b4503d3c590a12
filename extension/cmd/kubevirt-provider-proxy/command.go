// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/component-base/version"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/identity/mount"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/kubevirt"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/providerproxy"
)

func newCommand(log logr.Logger) *cobra.Command {
	folder := mount.Path
	ports := providerproxy.Ports{}
	servers := kubevirt.ServerOptions{}
	cmd := &cobra.Command{
		Use:   "kubevirt-provider-proxy",
		Short: "Forward the requests of a control plane's program to the provider cluster, and bound its responses.",
		Long: `Forward the requests of a control plane's program to the provider cluster, and bound its responses.
The program reaches it on the loopback interface of their pod, and needs no credentials: they are in the folder
of --credentials, in the files kubeconfig and token, which are read again when they change.`,
		Version:      version.Get().GitVersion + " " + version.Get().GitCommit,
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return providerproxy.New(folder, servers.Servers(), log).Serve(cmd.Context(), ports, func(requests, health net.Addr) {
				log.Info("Listening", "requests", requests.String(), "health", health.String())
			})
		},
	}

	cmd.Flags().StringVar(&folder, "credentials", folder, "folder with the credentials for the provider cluster")
	cmd.Flags().IntVar(&ports.Requests, "port", providerproxy.RequestPort, "port for requests, on 127.0.0.1")
	cmd.Flags().IntVar(&ports.Health, "health-port", providerproxy.HealthPort, "port for /healthz and /readyz, on all interfaces")

	servers.AddFlags(cmd.Flags())

	return cmd
}

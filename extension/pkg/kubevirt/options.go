// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package kubevirt

import (
	"github.com/spf13/pflag"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi/transport"
)

// ServerOptions are the command-line options about the servers in the kubeconfigs of shoot owners.
type ServerOptions struct {
	// AllowInternal allows servers that a component of a seed must not call for a shoot owner.
	AllowInternal bool
}

// FlagAllowInternalServers is the flag of AllowInternal. The driver has it, too.
const FlagAllowInternalServers = "allow-internal-provider-servers"

// FlagEvacuation is the flag of the driver with which it evacuates machines.
const FlagEvacuation = "evacuation"

// AddFlags implements cmd.Flagger of Gardener's library.
func (o *ServerOptions) AddFlags(flags *pflag.FlagSet) {
	flags.BoolVar(&o.AllowInternal, FlagAllowInternalServers, o.AllowInternal,
		"Allow kubeconfigs of provider clusters whose server is a loopback or link-local address, or a service of the seed, for example if a seed is its own provider cluster.")
}

// Servers returns the servers to which requests may be sent.
func (o *ServerOptions) Servers() transport.Servers {
	if o.AllowInternal {
		return transport.AnyServer
	}

	return transport.ExternalServers
}

// Complete implements cmd.Completer of Gardener's library.
func (*ServerOptions) Complete() error { return nil }

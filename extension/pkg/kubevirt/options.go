// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package kubevirt

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/spf13/pflag"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/kubeconfig"
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

// FlagAllowedIdentityServers is the flag of IdentityOptions.
const FlagAllowedIdentityServers = "workload-identity-allowed-servers"

// IdentityOptions are the command-line options about WorkloadIdentities.
type IdentityOptions struct {
	// AllowedServers are the servers that may receive tokens: https URLs, in which the first label of the
	// host can be *. Without one, all may.
	AllowedServers []string
}

// AddFlags implements cmd.Flagger of Gardener's library.
func (o *IdentityOptions) AddFlags(flags *pflag.FlagSet) {
	flags.StringSliceVar(&o.AllowedServers, FlagAllowedIdentityServers, o.AllowedServers,
		"Servers that may receive tokens of WorkloadIdentities, as https URLs. *.example.com stands for all hosts below example.com. Empty: all servers.")
}

// Complete implements cmd.Completer of Gardener's library.
func (o *IdentityOptions) Complete() error {
	for _, allowed := range o.AllowedServers {
		host := strings.Replace(allowed, "://*.", "://", 1)
		if !kubeconfig.IsServer(host) || strings.Contains(host, "*") {
			return fmt.Errorf("--%s: %q must be an https URL such as https://provider.example.com:6443", FlagAllowedIdentityServers, allowed)
		}
	}

	return nil
}

// Allows reports whether a server may receive tokens. The host, the port and the path must be the same.
func (o *IdentityOptions) Allows(server string) bool {
	if len(o.AllowedServers) == 0 {
		return true
	}

	host, rest := destination(server)

	for _, allowed := range o.AllowedServers {
		allowedHost, allowedRest := destination(allowed)
		if below, isSuffix := strings.CutPrefix(allowedHost, "*"); rest == allowedRest &&
			(host == allowedHost || isSuffix && strings.HasSuffix(host, below) && host != below) {
			return true
		}
	}

	return false
}

// destination returns the normalized host of a URL, and its port and path.
func destination(server string) (host, rest string) {
	parsed, err := url.Parse(server)
	if err != nil {
		return "", ""
	}

	port := parsed.Port()
	if port == "" {
		port = "443"
	}

	return strings.ToLower(strings.TrimSuffix(parsed.Hostname(), ".")), port + strings.TrimSuffix(parsed.EscapedPath(), "/")
}

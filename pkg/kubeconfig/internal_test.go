// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package kubeconfig_test

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/kubeconfig"
)

// TestCheckInternalServer checks the spellings of servers that a seed must not call.
func TestCheckInternalServer(t *testing.T) {
	t.Parallel()

	const loopback, linkLocal, unusual, local, service = "loopback", "link-local", "unusual form", "local host", "name of a service"

	for server, want := range map[string]string{
		"https://127.0.0.1:6443": loopback, "https://127.8.9.1": loopback, "https://[::1]:6443": loopback, "https://127.0.0.1.": loopback,
		"https://[::ffff:127.0.0.1]": loopback, "https://[::ffff:7f00:1]": loopback, "https://[::127.0.0.1]": loopback,
		"https://[::ffff:0:127.0.0.1]": loopback, "https://[64:ff9b::127.0.0.1]": loopback, "https://[64:ff9b::7f00:1]": loopback,
		"https://[64:ff9b:1::127.0.0.1]": loopback, "https://[2002:7f00:1::1]": loopback,
		"https://0.0.0.0": "unspecified", "https://[::]": "unspecified", "https://0.0.0.1": "reserved", "https://255.255.255.255": "reserved",
		"https://169.254.169.254": linkLocal, "https://[fe80::1%25eth0]": linkLocal, "https://[64:ff9b::a9fe:a9fe]": linkLocal, "https://[::ffff:169.254.169.254]": linkLocal,
		"https://224.0.0.1": "multicast", "https://[ff02::1]": "multicast",
		"https://100.100.100.200": "metadata", "https://[fd00:ec2::254]": "metadata", "https://168.63.129.16": "metadata",
		"https://127.1": unusual, "https://0x7f.1": unusual, "https://2130706433": unusual, "https://0177.0.0.1": unusual, "https://0X7F000001": unusual,
		"https://127.0.0.01": unusual, "https://127.1.": unusual, "https://8.8": unusual,
		"https://localhost:6443": local, "https://LocalHost": local, "https://localhost.": local, "https://a.localhost": local, "https://localhost.localdomain": local,
		"https://kubernetes.default.svc": service, "https://kubernetes.default.svc.": service, "https://KUBERNETES.default.Svc": service,
		"https://kubernetes.default.svc.cluster.local": service, "https://10-0-0-1.default.pod.cluster.local..": service, "https://kubernetes.default": service,
		"https://kubernetes": "without a domain", "https://etcd-main-client:2379": "without a domain",

		"https://api.example.com:6443": "", "https://api.svc.example.com": "", "https://10.1.2.3": "", "https://192.168.1.1": "", "https://[fd12::1]": "",
		"https://[64:ff9b::10.1.2.3]": "", "https://[2001:db8::1]": "", "https://8.8.8.8": "", "https://0x.example.com": "", "https://a.0x1g": "",
	} {
		err := kubeconfig.CheckInternalServer(server)
		if want == "" {
			require.NoError(t, err, server)

			continue
		}

		require.ErrorContains(t, err, want, server)
		require.ErrorContains(t, err, "field server of the current context is refused", server)
	}
}

// TestCheckLocalServer accepts services of the client's own cluster: a driver may run in its provider
// cluster.
func TestCheckLocalServer(t *testing.T) {
	t.Parallel()

	require.NoError(t, kubeconfig.CheckLocalServer("https://kubernetes.default.svc"))
	require.NoError(t, kubeconfig.CheckLocalServer("https://api.example.com"))
	require.Error(t, kubeconfig.CheckLocalServer("https://localhost"))
	require.Error(t, kubeconfig.CheckLocalServer("https://127.1"))
}

func FuzzCheckInternalServer(f *testing.F) {
	f.Add("https://127.0.0.1")
	f.Add("https://[::ffff:127.0.0.1%25a]")

	f.Fuzz(func(t *testing.T, server string) {
		_ = kubeconfig.CheckInternalServer(server)

		if address, err := netip.ParseAddr(server); err == nil && address.Unmap().IsLoopback() {
			require.Error(t, kubeconfig.CheckInternalAddress(address))
		}
	})
}

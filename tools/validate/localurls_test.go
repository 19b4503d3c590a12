// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package validate

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/commands"
)

func TestValidateClass_LocalURLs(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		reason string
		old    string
		new    string
		want   string
	}{
		"Import": {
			reason: "a server on the author's host",
			old:    "containerDisk: {image: example.com/image}",
			new:    "source: {http: {url: 'http://127.0.0.1:8000/i.qcow2'}}, storage: {resources: {requests: {storage: 20Gi}}}",
			want:   "rootVolume.source.http.url: has a loopback address, which for the pod that imports it means another host",
		},
		"DNS": {
			reason: "the stub of systemd-resolved",
			old:    "region: r",
			new:    "dnsConfig: {nameservers: [127.0.0.53]}\n  dnsPolicy: None\n  region: r",
			want:   "dnsConfig.nameservers[0]: is the guest's own address",
		},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			out, err := run(t, strings.Replace(commands.Valid, tc.old, tc.new, 1), "validate", "-f", "-")
			require.NoError(t, err, out)
			require.Contains(t, out, tc.want, tc.reason)

			out, err = run(t, commands.Valid, "validate", "-f", "-")
			require.NoError(t, err)
			require.NotContains(t, out, "another host")
		})
	}
}

// TestValidateClass_PulledByNodes accepts a registry that runs on each provider node.
func TestValidateClass_PulledByNodes(t *testing.T) {
	t.Parallel()

	for _, image := range []string{
		"containerDisk: {image: 'localhost:5000/image:1'}",
		"source: {registry: {url: 'docker://localhost:5000/image:1', pullMethod: node}}, storage: {resources: {requests: {storage: 20Gi}}}",
	} {
		out, err := run(t, strings.Replace(commands.Valid, "containerDisk: {image: example.com/image}", image, 1), "validate", "-f", "-")
		require.NoError(t, err, out)
		require.NotContains(t, out, "another host")
	}
}

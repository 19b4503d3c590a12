package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLocalURLWarnings(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		reason string
		old    string
		new    string
		want   string
	}{
		"ContainerDisk": {
			reason: "a registry on the author's host", old: "image: example.com/image", new: "image: 'localhost:5000/image:1'",
			want: "rootVolume.containerDisk.image: has a name of the local host, which for the provider node means another host",
		},
		"Import": {
			reason: "likewise", old: "containerDisk: {image: example.com/image}",
			new:  "source: {http: {url: 'http://127.0.0.1:8000/i.qcow2'}}, storage: {resources: {requests: {storage: 20Gi}}}",
			want: "rootVolume.source.http.url: has a loopback address, which for the pod that imports it means another host",
		},
		"DNS": {
			reason: "the stub of systemd-resolved", old: "region: r", new: "dnsConfig: {nameservers: [127.0.0.53]}\n  dnsPolicy: None\n  region: r",
			want: "dnsConfig.nameservers[0]: is the guest's own address",
		},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			out, err := run(t, strings.Replace(valid, tc.old, tc.new, 1), "validate", "-f", "-")
			require.NoError(t, err, out)
			require.Contains(t, out, tc.want, tc.reason)

			out, err = run(t, valid, "validate", "-f", "-")
			require.NoError(t, err)
			require.NotContains(t, out, "another host")
		})
	}
}

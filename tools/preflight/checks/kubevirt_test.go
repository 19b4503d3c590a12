// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"cmp"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	apiversion "k8s.io/apimachinery/pkg/version"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
)

// TestCheckKubernetes has API servers of several versions, behind a path as gateways have it.
func TestCheckKubernetes(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		reason               string
		kubeVirt, kubernetes string
		// instance is the spec of the class's instance.
		instance string
		code     int
		// requests is the number of requests: the version of Kubernetes need not be read.
		requests int
		want     []Level
	}{
		"TooNew":    {reason: "1.6.0 starts no machine there", kubeVirt: "v1.6.0", kubernetes: "v1.34.2", requests: 1, want: []Level{Warning}},
		"Newer":     {reason: "nor on a later one, with a suffix", kubeVirt: "v1.6.3", kubernetes: "v1.36.1+k3s1", requests: 1, want: []Level{Warning}},
		"OldEnough": {reason: "1.33 sets no observedGeneration", kubeVirt: "v1.6.0", kubernetes: "v1.33.13", requests: 1},
		"Fixed":     {reason: "1.7 has another patch", kubeVirt: "v1.7.0", kubernetes: "v1.34.2"},
		"Unknown":   {reason: "KubeVirt is being installed", kubernetes: "v1.34.2"},
		"Forbidden": {reason: "the admin has removed the ClusterRole", kubeVirt: "v1.6.0", code: http.StatusForbidden, requests: 1, want: []Level{Warning}},
		"ContainerDisk": {
			reason:     "virt-handler's status is refused",
			kubeVirt:   "v1.8.2",
			kubernetes: "v1.36.3",
			instance:   `{"volumes":[{"name":"root","containerDisk":{"image":"i"}}]}`,
			requests:   1,
			want:       []Level{Warning},
		},
		"KernelBoot": {
			reason:     "a kernel is in a container disk, too",
			kubeVirt:   "v1.7.0",
			kubernetes: "v1.36.3",
			instance:   `{"domain":{"firmware":{"kernelBoot":{"container":{"image":"i"}}}}}`,
			requests:   1,
			want:       []Level{Warning},
		},
		"ContainerDiskAtBoth": {
			reason:     "both pairs are known",
			kubeVirt:   "v1.6.0",
			kubernetes: "v1.36.3",
			instance:   `{"volumes":[{"name":"root","containerDisk":{"image":"i"}}]}`,
			requests:   1,
			want:       []Level{Warning, Warning},
		},
		"ContainerDiskFixed": {
			reason:     "the checksum has 64 bits",
			kubeVirt:   "v1.8.4",
			kubernetes: "v1.36.3",
			instance:   `{"volumes":[{"name":"root","containerDisk":{"image":"i"}}]}`,
		},
		"ContainerDiskBefore": {
			reason:     "Kubernetes 1.35 accepts the status",
			kubeVirt:   "v1.8.2",
			kubernetes: "v1.35.2",
			instance:   `{"volumes":[{"name":"root","containerDisk":{"image":"i"}}]}`,
			requests:   1,
		},
		"NoContainerDisk": {reason: "no class is affected", kubeVirt: "v1.8.2", kubernetes: "v1.36.3"},
		"Malformed":       {reason: "the server is no API server", kubeVirt: "v1.6.0", kubernetes: "devel", requests: 1, want: []Level{Error}},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			read := make(chan string, 10)
			raw := kubeconfigOf(t, httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				read <- r.URL.Path

				w.Header().Set("Content-Type", "application/json")

				if tc.code != 0 {
					w.WriteHeader(tc.code)
				}

				_ = json.NewEncoder(w).Encode(apiversion.Info{GitVersion: tc.kubernetes})
			})), "/k8s/clusters/c-1")

			clients, err := providerapi.NewCache(providerapi.Options{QPS: requestsPerSecond, Burst: burst}).For(raw)
			require.NoError(t, err)

			in := &scope{classes: []*class{classOf(t, `{"spec":{"template":{"spec":`+cmp.Or(tc.instance, "{}")+`}}}`)}}
			installed := &kubevirtv1.KubeVirt{Status: kubevirtv1.KubeVirtStatus{ObservedKubeVirtVersion: tc.kubeVirt}}

			var got []Level
			for _, r := range checkKubernetes(t.Context(), &reader{clients: clients}, in, installed) {
				got = append(got, r.Level)
			}

			require.Equal(t, tc.want, got, tc.reason)
			require.Len(t, read, tc.requests, tc.reason)

			if tc.requests > 0 {
				require.Equal(t, "/k8s/clusters/c-1/version", <-read)
			}
		})
	}
}

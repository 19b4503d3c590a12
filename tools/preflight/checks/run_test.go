// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// TestRun_ReadsOnce has classes that refer to the same objects, on a cluster that has none of them.
func TestRun_ReadsOnce(t *testing.T) {
	t.Parallel()

	var mu sync.Mutex

	requests := map[string]int{}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")

		if strings.HasSuffix(r.URL.Path, "/selfsubjectreviews") {
			answer := &authenticationv1.SelfSubjectReview{TypeMeta: metav1.TypeMeta{APIVersion: "authentication.k8s.io/v1", Kind: "SelfSubjectReview"}}
			answer.Status.UserInfo.Username = "jane"
			_ = json.NewEncoder(w).Encode(answer)

			return
		}

		mu.Lock()
		requests[r.Method+" "+r.URL.Path+r.URL.Query().Get("labelSelector")]++
		mu.Unlock()

		status := apierrors.NewNotFound(schema.GroupResource{}, "missing").Status()
		status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}

		w.WriteHeader(http.StatusNotFound)
		_ = json.NewEncoder(w).Encode(status)
	}))

	in := &Input{Admin: &Credentials{Kubeconfig: kubeconfigOf(t, server, ""), From: "file"}, Now: time.Now()}

	for _, name := range []string{"one", "two", "three"} {
		machine := &spi.CreateMachineInput{Name: name, UID: "0a1b2c3d-0000-4000-8000-000000000000", UserData: []byte("#cloud-config"), Spec: &v1alpha1.ProviderSpec{}}
		require.NoError(t, json.Unmarshal([]byte(`{"region":"r","zone":"z","tags":{"mcm.gardener.cloud/cluster":"c","mcm.gardener.cloud/role":"node"},
			"rootVolume":{"storage":{"storageClassName":"fast","resources":{"requests":{"storage":"1Gi"}}},"sourceRef":{"kind":"DataSource","name":"image","namespace":"images"}},
			"networks":[{"pod":{}},{"name":"tenant/net"}],"virtualMachineTemplate":{"spec":{"instancetype":{"name":"large"},"preference":{"name":"linux"}}}}`), machine.Spec))
		in.Classes = append(in.Classes, Class{Name: name, Machine: machine, Wanted: 1})
	}

	report := Run(t.Context(), in)
	require.NotEmpty(t, report.Results)

	total := 0
	for request, times := range requests {
		total += times

		if strings.HasPrefix(request, http.MethodGet) {
			require.Equal(t, 1, times, request)
		}
	}

	t.Logf("%d requests", total)

	for _, path := range []string{
		"/api/v1/namespaces/machines/resourcequotas", "/api/v1/nodes", "/api/v1/namespaces/images", "/apis/storage.k8s.io/v1/storageclasses",
		"/apis/cdi.kubevirt.io/v1beta1/namespaces/images/datasources/image",
		"/apis/instancetype.kubevirt.io/v1beta1/virtualmachineclusterinstancetypes/large",
		"/apis/k8s.cni.cncf.io/v1/namespaces/tenant/network-attachment-definitions/net",
	} {
		require.Contains(t, requests, http.MethodGet+" "+path)
	}
}

// kubeconfigOf returns a kubeconfig for a server behind a path.
func kubeconfigOf(t *testing.T, server *httptest.Server, path string) []byte {
	t.Helper()
	t.Cleanup(server.Close)

	raw, err := clientcmd.Write(clientcmdapi.Config{
		CurrentContext: "x",
		Contexts:       map[string]*clientcmdapi.Context{"x": {Cluster: "c", AuthInfo: "u", Namespace: "machines"}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"u": {Token: "t"}},
		Clusters: map[string]*clientcmdapi.Cluster{"c": {
			Server:                   server.URL + path,
			CertificateAuthorityData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
		}},
	})
	require.NoError(t, err)

	return raw
}

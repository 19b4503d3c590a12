// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providerproxy

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi/transport"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/hostile"
)

// mounted writes the credentials for a server as kubelet mounts them.
func mounted(t *testing.T, server *httptest.Server) string {
	t.Helper()

	folder := t.TempDir()
	kubeconfig := strings.Replace(string(hostile.Kubeconfig(t, server)), "token: t", "tokenFile: /var/run/secrets/provider/token", 1)
	require.Contains(t, kubeconfig, "tokenFile")
	require.NoError(t, os.WriteFile(filepath.Join(folder, "kubeconfig"), []byte(kubeconfig), 0o600))
	writeToken(t, folder, "first")

	return folder
}

func writeToken(t *testing.T, folder, token string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "token"), []byte(token), 0o600))
}

// before returns the server of a proxy before a provider cluster.
func before(t *testing.T, handler http.HandlerFunc) *httptest.Server {
	t.Helper()

	provider := httptest.NewTLSServer(handler)
	t.Cleanup(provider.Close)

	front := httptest.NewServer(New(mounted(t, provider), transport.AnyServer, logr.Discard()))
	t.Cleanup(front.Close)

	return front
}

// programOf returns the client of a program, which has no credentials.
func programOf(t *testing.T, front *httptest.Server) kubernetes.Interface {
	t.Helper()

	c, err := kubernetes.NewForConfig(&rest.Config{Host: front.URL})
	require.NoError(t, err)

	return c
}

// answer writes an object as an API server does.
func answer(w http.ResponseWriter, code int, object any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)

	if err := json.NewEncoder(w).Encode(object); err != nil {
		return // The client hung up.
	}
}

// TestProxy_Credentials sends the mounted token, and no other.
func TestProxy_Credentials(t *testing.T) {
	t.Parallel()

	var seen []string

	front := before(t, func(w http.ResponseWriter, r *http.Request) {
		seen = append(seen, r.Header.Get("Authorization")+r.Header.Get("Impersonate-User")+r.URL.Path)
		answer(w, http.StatusOK, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "a"}})
	})
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, front.URL+"/api/v1/namespaces/n/services/a", http.NoBody)
	require.NoError(t, err)
	request.Header.Set("Authorization", "Bearer mine")
	request.Header.Set("Impersonate-User", "admin")

	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusOK, response.StatusCode)
	require.Equal(t, []string{"Bearer first/api/v1/namespaces/n/services/a"}, seen)
}

// TestProxy_NotReady refuses requests until there are credentials, and those that could run a program.
func TestProxy_NotReady(t *testing.T) {
	t.Parallel()

	folder := t.TempDir()
	p := New(folder, transport.AnyServer, logr.Discard())
	require.ErrorContains(t, p.ready(), "read the kubeconfig")

	front := httptest.NewServer(p)
	t.Cleanup(front.Close)

	_, err := programOf(t, front).CoreV1().Services("n").Get(t.Context(), "a", metav1.GetOptions{})
	require.True(t, apierrors.IsServiceUnavailable(err), err)

	writeToken(t, folder, "t")
	require.NoError(t, os.WriteFile(filepath.Join(folder, "kubeconfig"), []byte(`{"apiVersion": "v1", "kind": "Config", "current-context": "a",
		"contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}], "clusters": [{"name": "a", "cluster": {"server": "https://a"}}],
		"users": [{"name": "a", "user": {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "/bin/sh", "interactiveMode": "Never"}}}]}`), 0o600))
	require.ErrorContains(t, p.ready(), "exec")
}

// pagesOf serves a list of Services in pages, as an API server does.
func pagesOf(total int, padding string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		from, _ := strconv.Atoi(r.URL.Query().Get("continue"))
		limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
		list := &corev1.ServiceList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceList"}, ListMeta: metav1.ListMeta{ResourceVersion: "7"}}

		for i := from; i < total && (limit == 0 || i < from+limit); i++ {
			list.Items = append(list.Items, corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(i), Annotations: map[string]string{"a": padding}}})
		}

		if next := from + len(list.Items); next < total {
			list.Continue = strconv.Itoa(next)
		}

		answer(w, http.StatusOK, list)
	}
}

// TestProxy_List reads a list without a limit in pages, so that a shoot with many machines does not exceed
// the bound on one response, and an endless one exceeds the bound on all.
func TestProxy_List(t *testing.T) {
	t.Parallel()

	for name, tc := range map[string]struct {
		reason  string
		handler http.HandlerFunc
		want    int
		says    string
	}{
		"Empty":    {"no page has an object", pagesOf(0, ""), 0, ""},
		"One":      {"one page", pagesOf(3, ""), 3, ""},
		"Many":     {"a thousand objects of 15 KiB", pagesOf(1000, strings.Repeat("x", 15<<10)), 1000, ""},
		"TooLarge": {"objects of 50 KiB", pagesOf(1000, strings.Repeat("x", 50<<10)), 0, "the list is too large"},
		"Endless": {"each page has another one", func(w http.ResponseWriter, _ *http.Request) {
			answer(w, http.StatusOK, map[string]any{"kind": "ServiceList", "apiVersion": "v1", "metadata": map[string]any{"continue": "x"}, "items": []any{}})
		}, 0, "the list is too large"},
		"Objects": {"small pages, whose objects are large in memory", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"kind":"ServiceList","apiVersion":"v1","metadata":{"continue":"x"},"items":[`+strings.Repeat("{},", 99)+"{}]}")
		}, 0, "the list is too large"},
		"Expired": {"the position is too old", func(w http.ResponseWriter, r *http.Request) {
			if !r.URL.Query().Has("continue") {
				pagesOf(100, "")(w, r)

				return
			}

			expired := apierrors.NewResourceExpired("too old").ErrStatus
			expired.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
			answer(w, http.StatusGone, expired)
		}, 0, "too old"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			front := before(t, tc.handler)
			list, err := programOf(t, front).CoreV1().Services("n").List(t.Context(), metav1.ListOptions{LabelSelector: "a=b"})

			if tc.says != "" {
				require.ErrorContains(t, err, tc.says, tc.reason)

				return
			}

			require.NoError(t, err)
			require.Len(t, list.Items, tc.want, tc.reason)
			require.Equal(t, "7", list.ResourceVersion)
			require.Empty(t, list.Continue)

			for i := range list.Items {
				require.Equal(t, strconv.Itoa(i), list.Items[i].Name)
			}
		})
	}
}

// TestProxy_EmptyResponse passes on the response of KubeVirt's subresources, with which the CSI driver
// attaches volumes: 202, without a body and a content type.
func TestProxy_EmptyResponse(t *testing.T) {
	t.Parallel()

	body := ""
	front := before(t, func(w http.ResponseWriter, r *http.Request) {
		read, _ := io.ReadAll(r.Body)
		body = string(read)

		w.WriteHeader(http.StatusAccepted)
	})

	err := programOf(t, front).CoreV1().RESTClient().Put().AbsPath("/apis/subresources.kubevirt.io/v1/namespaces/n/virtualmachines/m/addvolume").
		Body([]byte(`{"name":"v"}`)).Do(t.Context()).Error()
	require.NoError(t, err)
	require.JSONEq(t, `{"name":"v"}`, body)
}

// TestProxy_Watch passes events on before the watch ends.
func TestProxy_Watch(t *testing.T) {
	t.Parallel()

	front := before(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"type":"ADDED","object":{"kind":"Service","apiVersion":"v1","metadata":{"name":"a"}}}`+"\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})

	watching, err := programOf(t, front).CoreV1().Services("n").Watch(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)

	event := <-watching.ResultChan()
	service, ok := event.Object.(*corev1.Service)
	require.True(t, ok)
	require.Equal(t, "a", service.Name)
	watching.Stop()
}

// TestProxy_Refusal answers a request for a provider cluster that does not respond as an API server would.
func TestProxy_Refusal(t *testing.T) {
	t.Parallel()

	front := before(t, func(w http.ResponseWriter, _ *http.Request) {
		connection, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			_ = connection.Close()
		}
	})

	_, err := programOf(t, front).CoreV1().Services("n").Get(t.Context(), "a", metav1.GetOptions{})
	require.True(t, apierrors.IsServiceUnavailable(err), err)
	require.ErrorContains(t, err, "provider cluster: ")
}

// TestProxy_Serve listens for requests on the loopback interface only, and answers probes.
func TestProxy_Serve(t *testing.T) {
	t.Parallel()

	provider := httptest.NewTLSServer(pagesOf(1, ""))
	t.Cleanup(provider.Close)

	p := New(mounted(t, provider), transport.AnyServer, logr.Discard())
	ctx, cancel := context.WithCancel(t.Context())
	listening := make(chan [2]net.Addr, 1)
	ended := make(chan error, 1)

	go func() {
		ended <- p.Serve(ctx, Ports{}, func(requests, health net.Addr) { listening <- [2]net.Addr{requests, health} })
	}()

	addresses := <-listening
	requests, ok := addresses[0].(*net.TCPAddr)
	require.True(t, ok)
	require.True(t, requests.IP.IsLoopback())

	health, ok := addresses[1].(*net.TCPAddr)
	require.True(t, ok)

	for _, path := range []string{"/healthz", "/readyz"} {
		require.Equal(t, http.StatusOK, statusCode(t, fmt.Sprintf("http://127.0.0.1:%d%s", health.Port, path)))
	}

	require.Equal(t, http.StatusOK, statusCode(t, fmt.Sprintf("http://127.0.0.1:%d/api/v1/services", requests.Port)))
	require.Equal(t, http.StatusNotFound, statusCode(t, fmt.Sprintf("http://127.0.0.1:%d/api/v1/services", health.Port)), "no requests from other pods")

	cancel()
	require.NoError(t, <-ended)
}

func statusCode(t *testing.T, url string) int {
	t.Helper()

	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	require.NoError(t, err)

	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())

	return response.StatusCode
}

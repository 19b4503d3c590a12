// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providercluster

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/connection"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi/transport"
	hostileserver "github.com/gardener/machine-controller-manager-provider-kubevirt/test/hostile"
)

// programOf returns a program whose provider cluster always gives one answer.
func programOf(t *testing.T, code int, kind, body string) *Program {
	t.Helper()

	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(code)
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(server.Close)

	file := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(file, hostileserver.Kubeconfig(t, server), 0o600))

	p, err := NewProgram("test", "machines", connection.NewSource(connection.Beside(file), transport.AnyServer))
	require.NoError(t, err)

	return p
}

// TestProgram_Identity refuses responses with something else than the object of the request, which client-go decodes to
// an empty object.
func TestProgram_Identity(t *testing.T) {
	t.Parallel()

	for reason, body := range map[string]string{
		"nothing":              `{}`,
		"null":                 `null`,
		"no name":              `{"kind":"Service","apiVersion":"v1"}`,
		"a Status":             `{"kind":"Status","apiVersion":"v1","status":"Success"}`,
		"a list":               `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"1"}}`,
		"another name":         `{"kind":"Service","apiVersion":"v1","metadata":{"name":"b","namespace":"machines","uid":"u"}}`,
		"another namespace":    `{"kind":"Service","apiVersion":"v1","metadata":{"name":"a","namespace":"n","uid":"u"}}`,
		"never created":        `{"kind":"Service","apiVersion":"v1","metadata":{"name":"a","namespace":"machines"}}`,
		"an element of a list": `[]`,
	} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()

			p := programOf(t, http.StatusOK, "application/json", body)
			key := client.ObjectKey{Namespace: "machines", Name: "a"}
			require.Error(t, p.Get(t.Context(), key, &corev1.Service{}))
			require.Error(t, p.Create(t.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}))
			require.Error(t, p.List(t.Context(), &corev1.ServiceList{}), "an empty list would be a conclusion, too")
		})
	}

	p := programOf(t, http.StatusOK, "application/json", `{"kind":"Service","apiVersion":"v1","metadata":{"name":"a","namespace":"machines","uid":"u"}}`)
	require.NoError(t, p.Get(t.Context(), client.ObjectKey{Namespace: "machines", Name: "a"}, &corev1.Service{}))
	require.NoError(t, programOf(t, http.StatusOK, "application/json", `{"kind":"ServiceList","apiVersion":"v1","metadata":{"resourceVersion":"1"}}`).List(t.Context(), &corev1.ServiceList{}))
}

// TestProgram_NotFound concludes that an object does not exist only from the response of an API server for this object.
func TestProgram_NotFound(t *testing.T) {
	t.Parallel()

	const status = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404,"details":`

	for reason, tc := range map[string]struct {
		kind, body string
		absent     bool
	}{
		"the API server's": {"application/json", status + `{"name":"m0","kind":"virtualmachines","group":"kubevirt.io"}}`, true},
		"a gateway's":      {"text/html", "<html>no such route</html>", false},
		"without details":  {"application/json", status + `null}`, false},
		"another name":     {"application/json", status + `{"name":"m1","kind":"virtualmachines","group":"kubevirt.io"}}`, false},
		"another kind":     {"application/json", status + `{"name":"m0","kind":"namespaces"}}`, false},
		"the instance's":   {"application/json", status + `{"name":"m0","kind":"virtualmachineinstances","group":"kubevirt.io"}}`, false},
		"another group":    {"application/json", status + `{"name":"m0","kind":"virtualmachines","group":"other.io"}}`, false},
	} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()

			p := programOf(t, http.StatusNotFound, tc.kind, tc.body)
			machine := &kubevirtv1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "machines", Name: "m0"}}

			for _, err := range []error{p.Get(t.Context(), client.ObjectKeyFromObject(machine), machine), p.Delete(t.Context(), machine)} {
				require.Error(t, err)
				require.Equal(t, tc.absent, apierrors.IsNotFound(err), err)
			}
		})
	}
}

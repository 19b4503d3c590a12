// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providerapi_test

import (
	"context"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/hostile"
)

// observe returns clients for a server that sends a status code in every response, and a function
// that returns the reported call. A response of 200 is an empty object.
func observe(t *testing.T, base string, code int) (*providerapi.Clients, func() providerapi.Call) {
	t.Helper()

	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		fmt.Fprint(w, "{}")
	}))
	t.Cleanup(server.Close)

	return told(t, server, base)
}

// told returns clients for a server behind a path, and a function that returns the one call that
// was reported since it was last called.
func told(t *testing.T, server *httptest.Server, base string) (*providerapi.Clients, func() providerapi.Call) {
	t.Helper()

	told := make(chan providerapi.Call, 10)
	options := providerapi.Options{QPS: 1000, Burst: 1000, Called: func(c providerapi.Call) { told <- c }}
	clients, err := providerapi.NewCache(options).For(hostile.KubeconfigWith(t, func(cluster, user, _ object) {
		cluster["server"] = server.URL + base
		cluster["certificate-authority-data"] = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
		user["token"] = hostile.Token
	}))
	require.NoError(t, err)

	return clients, func() providerapi.Call {
		require.Len(t, told, 1, "a request is told once")

		return <-told
	}
}

// requests returns one request of each kind that a client sends, by the service that is reported.
func requests(ctx context.Context, c *providerapi.Clients) map[string]func() error {
	vms := c.KubeVirt.KubevirtV1().VirtualMachines("machines")
	secrets := c.Kubernetes.CoreV1().Secrets("machines")
	images := c.CDI.CdiV1beta1().DataVolumes("machines")
	listed := c.Metadata.Resource(kubevirtv1.SchemeGroupVersion.WithResource("virtualmachines")).Namespace("machines")

	return map[string]func() error{
		"virtualmachines_get": func() error { _, err := vms.Get(ctx, "watch", metav1.GetOptions{}); return err },
		"virtualmachines_create": func() error {
			_, err := vms.Create(ctx, &kubevirtv1.VirtualMachine{}, metav1.CreateOptions{})

			return err
		},
		"virtualmachines_patch": func() error {
			_, err := vms.Patch(ctx, "m", types.MergePatchType, nil, metav1.PatchOptions{})

			return err
		},
		"virtualmachines_delete": func() error { return vms.Delete(ctx, "m", metav1.DeleteOptions{}) },
		"virtualmachines_watch": func() error {
			w, err := vms.Watch(ctx, metav1.ListOptions{})
			if err == nil {
				w.Stop()
			}

			return err
		},
		"virtualmachines_list": func() error { _, err := listed.List(ctx, metav1.ListOptions{}); return err },
		"secrets_update":       func() error { _, err := secrets.Update(ctx, secretNamed("m"), metav1.UpdateOptions{}); return err },
		"secrets_deletecollection": func() error {
			return secrets.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
		},
		"datavolumes_status_update": func() error {
			_, err := images.UpdateStatus(ctx, &cdiv1beta1.DataVolume{ObjectMeta: metav1.ObjectMeta{Name: "m"}}, metav1.UpdateOptions{})

			return err
		},
		"namespaces_get": func() error {
			_, err := c.Kubernetes.CoreV1().Namespaces().Get(ctx, "namespaces", metav1.GetOptions{})

			return err
		},
		"other_list": func() error { _, err := c.Kubernetes.Discovery().ServerVersion(); return err },
	}
}

func secretNamed(name string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func TestObserving_NamesCalls(t *testing.T) {
	t.Parallel()

	for _, base := range []string{"", "/k8s/clusters/apis"} {
		clients, told := observe(t, base, http.StatusOK)

		for service, request := range requests(t.Context(), clients) {
			_ = request() // How an empty object is decoded does not matter.

			call := told()
			require.Equal(t, service, call.Service)
			require.Positive(t, call.Duration, service)
			require.False(t, call.Failed, service)
		}
	}
}

func TestObserving_FailedCalls(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		reason string
		code   int
		// fails lists the services for which a response with the code is a failure; nil means all.
		fails []string
	}{
		"Absent": {
			"what is named may be absent; without a name it is the type or the namespace", http.StatusNotFound,
			[]string{"virtualmachines_create", "virtualmachines_watch", "virtualmachines_list", "secrets_deletecollection", "other_list"},
		},
		"Conflict":       {"somebody was faster", http.StatusConflict, []string{}},
		"Gone":           {"a watch or a page begins anew", http.StatusGone, []string{}},
		"Redirect":       {"it is not followed", http.StatusFound, nil},
		"Forbidden":      {"a right", http.StatusForbidden, nil},
		"Unauthorized":   {"expired credentials", http.StatusUnauthorized, nil},
		"Invalid":        {"a webhook", http.StatusUnprocessableEntity, nil},
		"TooManyAsked":   {"the server is overloaded", http.StatusTooManyRequests, nil},
		"Broken":         {"the server is broken", http.StatusInternalServerError, nil},
		"ServerIsAbsent": {"or its proxy", http.StatusBadGateway, nil},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			clients, told := observe(t, "", tc.code)

			for service, request := range requests(t.Context(), clients) {
				_ = request() // The error does not matter here.

				call := told()
				want := tc.fails == nil || slices.Contains(tc.fails, service)
				require.Equal(t, want, call.Failed, "%s: %s", service, tc.reason)
			}
		})
	}
}

// TestExceedsQuota has a server refuse requests because of a quota, which is not a failure, for
// another reason, and with a long message.
func TestExceedsQuota(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		reason, message string
		failed          bool
	}{
		"Quota": {"cluster-autoscaler goes on from it", `secrets "m" is forbidden: exceeded quota: q, requested: secrets=1`, false},
		"Right": {"an admin has to know", `secrets is forbidden: User "u" cannot update`, true},
		"Long":  {"all of it arrives nevertheless", strings.Repeat("x", 8<<10), true},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(http.StatusForbidden)
				fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":%q}`, tc.message)
			}))
			t.Cleanup(server.Close)

			clients, told := told(t, server, "")
			_, err := clients.Kubernetes.CoreV1().Secrets("machines").Update(t.Context(), secretNamed("m"), metav1.UpdateOptions{})
			require.EqualError(t, err, tc.message)
			require.Equal(t, tc.failed, told().Failed, tc.reason)
		})
	}
}

// ending is a context that ends with an error when it is told to.
type ending struct {
	context.Context //nolint:containedctx // It is a context.

	done chan struct{}
	err  error
}

// Done implements context.Context.
func (e *ending) Done() <-chan struct{} { return e.done }

// Err implements context.Context.
func (e *ending) Err() error {
	select {
	case <-e.done:
		return e.err
	default:
		return nil
	}
}

// TestObserving_NoResponse ends a call while the server has its request.
func TestObserving_NoResponse(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		reason string
		ends   error
		failed bool
	}{
		"Cancelled": {"the driver wants no answer any more", context.Canceled, false},
		"TooLate":   {"the server did not answer in time", context.DeadlineExceeded, true},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			ctx := &ending{Context: t.Context(), done: make(chan struct{}), err: tc.ends}

			server := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				close(ctx.done)
				<-r.Context().Done()
			}))
			t.Cleanup(server.Close)
			t.Cleanup(server.CloseClientConnections)

			clients, told := told(t, server, "")
			require.ErrorIs(t, get(ctx, clients), tc.ends)
			require.Equal(t, tc.failed, told().Failed, tc.reason)
		})
	}
}

func TestClients_UnreachableServers(t *testing.T) {
	t.Parallel()

	server := httptest.NewTLSServer(http.NotFoundHandler())
	server.Close()

	clients, told := told(t, server, "")
	require.Error(t, get(t.Context(), clients))
	require.True(t, told().Failed)
}

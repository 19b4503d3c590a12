// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providercluster

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// virtualMachines is the kind of the lists in these tests.
var virtualMachines = kubevirtv1.SchemeGroupVersion.WithKind("VirtualMachine")

// machineNamed returns the metadata of a virtual machine.
func machineNamed(name, annotation string) metav1.PartialObjectMetadata {
	return metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace:   "machines",
		Name:        name,
		UID:         "uid",
		Labels:      map[string]string{"a": "b"},
		Annotations: map[string]string{"c": annotation},
	}}
}

func pageOf(machines ...metav1.PartialObjectMetadata) metav1.PartialObjectMetadataList {
	return metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadataList"}, Items: machines}
}

// endless is a server whose lists do not end. Each page has one virtual machine.
type endless struct {
	machine metav1.PartialObjectMetadata
	sent    atomic.Int64
}

// ServeHTTP implements http.Handler.
func (e *endless) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	page := pageOf(e.machine)
	page.Continue = fmt.Sprint(e.sent.Load())

	body, _ := json.Marshal(page) //nolint:errchkjson // It has no values that cannot be encoded.

	w.Header().Set("Content-Type", "application/json")

	n, _ := w.Write(body) // The client may hang up.
	e.sent.Add(int64(n))
}

// TestListMetadata_Endless requires a list without an end to be refused before it takes much memory.
func TestListMetadata_Endless(t *testing.T) {
	t.Parallel()

	for name, tc := range map[string]struct {
		reason  string
		machine metav1.PartialObjectMetadata
		says    string
		mostMiB int64
	}{
		"Labels": {"what is kept takes memory", func() metav1.PartialObjectMetadata {
			labelled := machineNamed("m", "")
			labelled.Labels["a"] = strings.Repeat("x", 1<<20)

			return labelled
		}(), "what is needed of its objects takes more than 2048 KiB", 3},
		"Elements": {"an empty object of a few bytes takes a kilobyte", func() metav1.PartialObjectMetadata {
			owned := machineNamed("m", "")
			owned.OwnerReferences = make([]metav1.OwnerReference, 15_000)

			return owned
		}(), "its pages take more than 512 MiB of memory, one after the other", 40},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			server := &endless{machine: tc.machine}

			all, err := (&Cluster{Client: serve(t, server.ServeHTTP)}).ListMetadata(t.Context(), virtualMachines, nil)
			require.ErrorContains(t, err, ErrorPrefix+"the list does not end")
			require.ErrorContains(t, err, tc.says, tc.reason)
			require.LessOrEqual(t, server.sent.Load()>>20, tc.mostMiB)

			for i := range all {
				require.Equal(t, "m", all[i].Name)
				require.Empty(t, all[i].Annotations)
			}
		})
	}
}

// TestListMetadata_Names refuses objects with a name that no API server accepts.
func TestListMetadata_Names(t *testing.T) {
	t.Parallel()

	server := &endless{machine: machineNamed(strings.Repeat("x", 1<<20), "")}

	_, err := (&Cluster{Client: serve(t, server.ServeHTTP)}).ListMetadata(t.Context(), virtualMachines, nil)
	require.ErrorContains(t, err, ErrorPrefix+"the response has an object with a name, a namespace or a UID that no API server accepts")
}

// TestListMetadata reads two pages.
func TestListMetadata(t *testing.T) {
	t.Parallel()

	c := &Cluster{Client: serve(t, func(w http.ResponseWriter, r *http.Request) {
		page := pageOf(machineNamed("first", "x"), machineNamed("other", "x"))
		page.Continue = "next"

		if r.URL.Query().Get("continue") == "next" {
			page = pageOf(machineNamed("last", "x"))
		}

		if r.URL.Query().Get("limit") != "50" || r.URL.Query().Get("labelSelector") != "a=b" {
			page.Items = nil
		}

		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(page) // The client may hang up.
	})}

	all, err := c.ListMetadata(t.Context(), virtualMachines, func(o *metav1.PartialObjectMetadata) bool {
		return o.Name != "other" && o.Annotations["c"] == "x"
	}, client.MatchingLabels{"a": "b"})
	require.NoError(t, err)
	require.Len(t, all, 2)

	for i, name := range []string{"first", "last"} {
		require.Equal(t, virtualMachines, all[i].GroupVersionKind())
		require.Equal(t, metav1.ObjectMeta{Namespace: "machines", Name: name, UID: "uid", Labels: map[string]string{"a": "b"}}, all[i].ObjectMeta)
	}
}

// TestCollect_Part returns what was read before an error.
func TestCollect_Part(t *testing.T) {
	t.Parallel()

	c := &Cluster{Client: serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("continue") != "" {
			http.Error(w, "down", http.StatusServiceUnavailable)

			return
		}

		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"metadata": {"continue": "next"}, "items": [{"metadata": {"name": "first"}}]}`))
	})}

	names, err := Collect(t.Context(), c, &kubevirtv1.VirtualMachineList{}, func(vm *kubevirtv1.VirtualMachine) (string, bool) { return vm.Name, true })
	require.ErrorContains(t, err, ErrorPrefix)
	require.Equal(t, []string{"first"}, names)
}

// TestList_Large refuses a response that is kept as a whole.
func TestList_Large(t *testing.T) {
	t.Parallel()

	c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"kind": "VirtualMachineList", "apiVersion": "kubevirt.io/v1", "items": [` + strings.Repeat("{},", 2000) + `{}]}`))
	})

	err := c.List(t.Context(), &kubevirtv1.VirtualMachineList{}, client.Limit(1))
	require.ErrorContains(t, err, "provider cluster: ")
	require.ErrorContains(t, err, "it takes more than 1 MiB of memory")

	names, err := Collect(t.Context(), &Cluster{Client: c}, &kubevirtv1.VirtualMachineList{}, func(*kubevirtv1.VirtualMachine) (int, bool) { return 0, true })
	require.NoError(t, err, "a page may be large")
	require.Len(t, names, 2001)
}

func TestNames(t *testing.T) {
	t.Parallel()

	require.Empty(t, Names(nil))
	require.Equal(t, "a, b", Names([]string{"a", "b"}))
	require.Equal(t, "a, b, c, d, e, f, g, h, i, j and 2 more", Names(strings.Split("abcdefghijkl", "")))
}

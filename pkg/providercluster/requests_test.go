// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providercluster

import (
	"net/http"
	"path"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// requests is an API server that has no objects, and records the requests.
type requests struct {
	mu       sync.Mutex
	received []string
}

func (s *requests) serve(t *testing.T) http.HandlerFunc {
	t.Helper()

	return func(w http.ResponseWriter, r *http.Request) {
		s.record(r)

		switch {
		case r.URL.Query().Get("watch") != "":
			deleted := foundVM("u", ours, "m")
			deleted.TypeMeta = metav1.TypeMeta{APIVersion: kubevirtv1.GroupVersion.String(), Kind: "VirtualMachine"}
			deleted.ResourceVersion = "2"

			answerWith(t, w, http.StatusOK, map[string]any{"type": "DELETED", "object": deleted})
			assert.NoError(t, http.NewResponseController(w).Flush())
			<-r.Context().Done()
		case r.Method == http.MethodDelete:
			answerWith(t, w, http.StatusOK, &metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess})
		default:
			answerWith(t, w, http.StatusNotFound, statusOf(http.StatusNotFound, metav1.StatusReasonNotFound))
		}
	}
}

func (s *requests) record(r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()

	s.received = append(s.received, r.Method+" "+path.Base(r.URL.Path))
}

// TestRemoveVirtualMachine_Requests deletes the DataVolumes only of a VirtualMachine that was deleted
// before: only that may have lost them.
func TestRemoveVirtualMachine_Requests(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		deleted bool
		want    []string
	}{
		"Deleted by this call": {false, []string{"DELETE m", "GET virtualmachines", "GET m", "DELETE secrets"}},
		"Deleted before":       {true, []string{"GET virtualmachines", "GET m", "DELETE datavolumes", "DELETE secrets"}},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			server := &requests{}
			p, kubeconfig := providerAt(t, server.serve(t))

			c, err := p.clients.For(kubeconfig)
			require.NoError(t, err)

			vm := foundVM("u", ours, "m")
			vm.ResourceVersion = "1"

			if tc.deleted {
				vm.DeletionTimestamp = ptr.To(metav1.NewTime(time.Now()))
			}

			require.NoError(t, p.removeVirtualMachine(t.Context(), c, &spi.DeleteMachineInput{Name: "m", Identity: ours}, vm))
			require.Equal(t, tc.want, server.received)
		})
	}
}

// TestInstanceOf_Requests reads an instance only if virt-controller has reported one.
func TestInstanceOf_Requests(t *testing.T) {
	t.Parallel()

	server := &requests{}
	p, kubeconfig := providerAt(t, server.serve(t))

	c, err := p.clients.For(kubeconfig)
	require.NoError(t, err)

	vm := foundVM("u", ours, "m")

	_, err = instanceOf(t.Context(), c, vm)
	require.NoError(t, err)
	require.Empty(t, server.received)

	vm.Status.Created = true

	_, err = instanceOf(t.Context(), c, vm)
	require.NoError(t, err)
	require.Equal(t, []string{"GET m"}, server.received)
}

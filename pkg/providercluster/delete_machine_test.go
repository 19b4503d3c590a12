// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providercluster

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// deletions is an API server with one VirtualMachine. It rejects the first deletions, in each case
// after a change of the VirtualMachine.
type deletions struct {
	mu       sync.Mutex
	vm       *kubevirtv1.VirtualMachine
	changes  []func(*kubevirtv1.VirtualMachine)
	received []metav1.Preconditions
}

func (d *deletions) serve(t *testing.T) http.HandlerFunc {
	t.Helper()

	return func(w http.ResponseWriter, r *http.Request) {
		d.mu.Lock()
		defer d.mu.Unlock()

		switch {
		case !strings.Contains(r.URL.Path, "/virtualmachines/"):
			answerWith(t, w, http.StatusNotFound, statusOf(http.StatusNotFound, metav1.StatusReasonNotFound))
		case r.Method == http.MethodDelete:
			d.delete(t, w, r)
		case d.vm == nil:
			answerWith(t, w, http.StatusNotFound, statusOf(http.StatusNotFound, metav1.StatusReasonNotFound))
		default:
			answerWith(t, w, http.StatusOK, d.vm)
		}
	}
}

func (d *deletions) delete(t *testing.T, w http.ResponseWriter, r *http.Request) {
	t.Helper()

	var options metav1.DeleteOptions
	if err := json.NewDecoder(r.Body).Decode(&options); err != nil {
		t.Errorf("decode the options: %v", err)
	}

	d.received = append(d.received, *options.Preconditions)

	if len(d.changes) > 0 {
		d.changes[0](d.vm)
		d.changes = d.changes[1:]

		answerWith(t, w, http.StatusConflict, statusOf(http.StatusConflict, metav1.StatusReasonConflict))

		return
	}

	d.vm = nil

	answerWith(t, w, http.StatusOK, &metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess})
}

func statusOf(code int32, reason metav1.StatusReason) *metav1.Status {
	return &metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure,
		Code:     code,
		Reason:   reason,
	}
}

// TestDeleteUnchanged_NewVirtualMachine lets virt-controller change a VirtualMachine between the
// driver's read and its deletion. Until virt-controller has added its finalizer, only the version
// that the driver has read may be deleted.
func TestDeleteUnchanged_NewVirtualMachine(t *testing.T) {
	t.Parallel()

	annotated := func(vm *kubevirtv1.VirtualMachine) { vm.ResourceVersion = "2" }
	finalized := func(vm *kubevirtv1.VirtualMachine) {
		vm.ResourceVersion = "3"
		vm.Finalizers = []string{kubevirtv1.VirtualMachineControllerFinalizer}
	}

	tests := map[string]struct {
		vm      func(*kubevirtv1.VirtualMachine)
		changes []func(*kubevirtv1.VirtualMachine)
		want    []string // the versions of the deletions; empty for any version
	}{
		"New":       {want: []string{"1"}},
		"Finalized": {vm: finalized, want: []string{""}},
		"Changing":  {changes: []func(*kubevirtv1.VirtualMachine){annotated, finalized}, want: []string{"1", "2", ""}},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			vm := foundVM("u", ours, "m")
			vm.TypeMeta = metav1.TypeMeta{APIVersion: kubevirtv1.GroupVersion.String(), Kind: "VirtualMachine"}

			vm.ResourceVersion = "1"
			if tc.vm != nil {
				tc.vm(vm)
			}

			server := &deletions{vm: vm, changes: tc.changes}
			p, kubeconfig := providerAt(t, server.serve(t))

			c, err := p.clients.For(kubeconfig)
			require.NoError(t, err)

			seen, err := c.VirtualMachines().Get(t.Context(), "m")
			require.NoError(t, err)
			require.NoError(t, c.VirtualMachines().DeleteUnchanged(t.Context(), seen))

			versions := make([]string, 0, len(server.received))
			for _, preconditions := range server.received {
				require.Equal(t, ptr.To(types.UID("u")), preconditions.UID)
				versions = append(versions, ptr.Deref(preconditions.ResourceVersion, ""))
			}

			require.Equal(t, tc.want, versions)
		})
	}
}

// TestDeleteUnchanged_EndlessConflicts gives up after a few conflicts.
func TestDeleteUnchanged_EndlessConflicts(t *testing.T) {
	t.Parallel()

	vm := foundVM("u", ours, "m")
	vm.TypeMeta = metav1.TypeMeta{APIVersion: kubevirtv1.GroupVersion.String(), Kind: "VirtualMachine"}
	vm.ResourceVersion = "1"

	server := &deletions{vm: vm}
	for range 100 {
		server.changes = append(server.changes, func(*kubevirtv1.VirtualMachine) {})
	}

	p, kubeconfig := providerAt(t, server.serve(t))

	c, err := p.clients.For(kubeconfig)
	require.NoError(t, err)
	require.ErrorIs(t, c.VirtualMachines().DeleteUnchanged(t.Context(), vm), spi.ErrConflict)
	require.Less(t, len(server.received), 10)
}

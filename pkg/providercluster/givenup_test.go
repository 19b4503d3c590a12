// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providercluster

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/images"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/hostile"
)

// TestDeleteMachine_AbandonedInLostCluster deletes machines of a provider cluster that refuses every
// request. Only machines that an operator has abandoned count as deleted.
func TestDeleteMachine_AbandonedInLostCluster(t *testing.T) {
	t.Parallel()

	for code, refused := range map[int]error{
		http.StatusUnauthorized:       spi.ErrUnauthenticated,
		http.StatusForbidden:          spi.ErrForbidden,
		http.StatusServiceUnavailable: spi.ErrUnavailable,
	} {
		t.Run(http.StatusText(code), func(t *testing.T) {
			t.Parallel()

			p, kubeconfig := providerAt(t, func(w http.ResponseWriter, _ *http.Request) {
				answerWith(t, w, code, &metav1.Status{
					TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
					Status:   metav1.StatusFailure,
					Code:     int32(code),
					Reason:   metav1.StatusReason(http.StatusText(code)),
				})
			})
			given := &spi.RecordedAddress{Abandoned: true}

			in := &spi.DeleteMachineInput{Kubeconfig: kubeconfig, Name: "m", Identity: ours, HasProviderID: true}
			require.ErrorIs(t, p.DeleteMachine(t.Context(), in), refused)

			in.Recorded = given
			require.NoError(t, p.DeleteMachine(t.Context(), in))

			_, err := p.GetMachineStatus(t.Context(), &spi.ObserveMachineInput{
				Kubeconfig:    kubeconfig,
				Name:          "m",
				Identity:      ours,
				HasProviderID: true,
				Deleting:      true,
				Recorded:      given,
			})
			require.ErrorIs(t, err, spi.ErrNotFound)
		})
	}
}

// TestDeleteMachine_AbandonedWithoutCredentials gives machines up whose provider cluster cannot be
// asked, since the kubeconfig or the tags are missing or unusable.
func TestDeleteMachine_AbandonedWithoutCredentials(t *testing.T) {
	t.Parallel()

	for name, in := range map[string]spi.DeleteMachineInput{
		"NoKubeconfig":       {Identity: ours},
		"UnusableKubeconfig": {Identity: ours, Kubeconfig: []byte("not: [a kubeconfig")},
		"NoTags":             {Kubeconfig: []byte("k")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			p, _ := providerAt(t, nil)
			in.Name = "m"
			in.HasProviderID = true
			require.ErrorIs(t, p.DeleteMachine(t.Context(), &in), spi.ErrInvalid)

			observed := &spi.ObserveMachineInput{Kubeconfig: in.Kubeconfig, Name: "m", Identity: in.Identity, HasProviderID: true, Deleting: true}
			_, err := p.GetMachineStatus(t.Context(), observed)
			require.ErrorIs(t, err, spi.ErrInvalid)

			in.Recorded = &spi.RecordedAddress{Abandoned: true}
			observed.Recorded = &spi.RecordedAddress{Abandoned: true}
			require.NoError(t, p.DeleteMachine(t.Context(), &in))

			_, err = p.GetMachineStatus(t.Context(), observed)
			require.ErrorIs(t, err, spi.ErrNotFound)
		})
	}
}

// TestDeleteMachine_AbandonedKeepsDisks keeps the VirtualMachine of an abandoned machine running under
// other tags. Its disks and Secrets have the tags of the class.
func TestDeleteMachine_AbandonedKeepsDisks(t *testing.T) {
	t.Parallel()

	var (
		mu   sync.Mutex
		sent []string
	)

	vm := foundVM("u", theirs, "m")
	vm.TypeMeta = metav1.TypeMeta{APIVersion: kubevirtv1.GroupVersion.String(), Kind: "VirtualMachine"}

	p, kubeconfig := providerAt(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()

		sent = append(sent, r.Method)

		answerWith(t, w, http.StatusOK, vm)
	})

	require.NoError(t, p.DeleteMachine(t.Context(), &spi.DeleteMachineInput{
		Kubeconfig:    kubeconfig,
		Name:          "m",
		Identity:      ours,
		HasProviderID: true,
		Recorded:      &spi.RecordedAddress{Abandoned: true},
	}))
	require.False(t, slices.Contains(sent, http.MethodDelete), "%v", sent)
}

// providerAt returns a provider, and the kubeconfig of a server.
func providerAt(t *testing.T, serve http.HandlerFunc) (*Machines, []byte) {
	t.Helper()

	server := httptest.NewTLSServer(serve)
	t.Cleanup(server.Close)

	clients := providerapi.NewCache(providerapi.Options{QPS: 1000, Burst: 1000})
	manager := images.NewManager(clock.RealClock{}, time.Hour)

	return NewMachines(clients, manager, Options{OrphanPeriod: time.Hour, MaxDeleteWait: time.Second}), hostile.Kubeconfig(t, server)
}

func answerWith(t *testing.T, w http.ResponseWriter, code int, object any) {
	t.Helper()

	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)

	if err := json.NewEncoder(w).Encode(object); err != nil {
		t.Errorf("answer: %v", err)
	}
}

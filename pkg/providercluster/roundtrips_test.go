// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providercluster

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/images"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/hostile"
)

// roundTrip is how long each request takes.
const roundTrip = 250 * time.Millisecond

// distant is an API server with at most one VirtualMachine, which every watch reports as deleted. It creates and deletes
// whatever it is asked to, unless it refuses deletions: its watches then report nothing.
type distant struct {
	vm      *kubevirtv1.VirtualMachine
	refuses bool

	mu       sync.Mutex
	received []string
}

// RoundTrip implements http.RoundTripper.
func (d *distant) RoundTrip(r *http.Request) (*http.Response, error) {
	<-time.NewTimer(roundTrip).C

	d.mu.Lock()
	d.received = append(d.received, r.Method+" "+path.Base(r.URL.Path))
	d.mu.Unlock()

	switch {
	case d.refuses && r.URL.Query().Has("watch"):
		<-r.Context().Done()

		return nil, r.Context().Err()
	case d.refuses && r.Method == http.MethodDelete:
		return responseOf(r, http.StatusForbidden, statusOf(http.StatusForbidden, metav1.StatusReasonForbidden))
	case r.URL.Query().Has("watch"):
		return responseOf(r, http.StatusOK, map[string]any{"type": "DELETED", "object": d.vm})
	case r.Method == http.MethodPost:
		return &http.Response{StatusCode: http.StatusCreated, Request: r, Header: http.Header{"Content-Type": r.Header["Content-Type"]}, Body: r.Body}, nil
	case r.Method == http.MethodDelete:
		return responseOf(r, http.StatusOK, &metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess})
	case d.vm != nil && path.Base(path.Dir(r.URL.Path)) == "virtualmachines":
		return responseOf(r, http.StatusOK, d.vm)
	default:
		return responseOf(r, http.StatusNotFound, statusOf(http.StatusNotFound, metav1.StatusReasonNotFound))
	}
}

func responseOf(r *http.Request, code int, object any) (*http.Response, error) {
	body, err := json.Marshal(object)

	return &http.Response{
		StatusCode: code,
		Request:    r,
		Header:     http.Header{"Content-Type": {"application/json"}},
		Body:       io.NopCloser(bytes.NewReader(body)),
	}, err
}

// TestMachines_RoundTrips counts the requests of calls, and the round trips that follow each other. A synctest bubble has
// no time except that of the requests.
func TestMachines_RoundTrips(t *testing.T) {
	t.Parallel()

	const (
		plain = `{"containerDisk":{"image":"example.com/image"}}`
		image = `{"source":{"http":{"url":"https://example.com/image"}},"storage":{"resources":{"requests":{"storage":"1Gi"}}}}`
	)

	create := func(rootVolume string, keys ...string) func(*testing.T, *Machines, []byte) error {
		return func(t *testing.T, m *Machines, kubeconfig []byte) error {
			t.Helper()

			in := hostileMachine(kubeconfig)
			require.NoError(t, json.Unmarshal([]byte(rootVolume), &in.Spec.RootVolume))
			in.Spec.SSHKeys = keys
			in.Spec.Tags = map[string]string{v1alpha1.TagCluster: ours.Cluster, v1alpha1.TagRole: ours.Role}

			_, err := m.CreateMachine(t.Context(), in)

			return err
		}
	}
	migratable := func(t *testing.T, m *Machines, kubeconfig []byte) error {
		t.Helper()

		in := hostileMachine(kubeconfig)
		in.Evacuation = true
		in.Spec.RootVolume.Storage.StorageClassName = ptr.To("shared")
		in.Spec.Networks = []v1alpha1.Network{{Pod: &v1alpha1.PodNetwork{}, Masquerade: &kubevirtv1.InterfaceMasquerade{}}}

		_, err := m.CreateMachine(t.Context(), in)

		return err
	}
	remove := func(t *testing.T, m *Machines, kubeconfig []byte) error {
		t.Helper()

		return m.DeleteMachine(t.Context(), &spi.DeleteMachineInput{Kubeconfig: kubeconfig, Name: "m", Identity: ours})
	}

	status := func(t *testing.T, m *Machines, kubeconfig []byte) error {
		t.Helper()

		_, err := m.GetMachineStatus(t.Context(), &spi.ObserveMachineInput{Kubeconfig: kubeconfig, Name: "m", Identity: ours, CreationTimeout: time.Hour})

		return err
	}

	there := foundVM("u", ours, "m")
	there.TypeMeta = metav1.TypeMeta{APIVersion: kubevirtv1.GroupVersion.String(), Kind: "VirtualMachine"}
	there.ResourceVersion = "1"

	started := there.DeepCopy()
	started.Status.Created = true

	leaving := there.DeepCopy()
	leaving.DeletionTimestamp = ptr.To(metav1.Now())

	for name, tc := range map[string]struct {
		reason     string
		vm         *kubevirtv1.VirtualMachine
		refuses    bool
		call       func(*testing.T, *Machines, []byte) error
		fails      error
		roundTrips int
		requests   []string
	}{
		"StatusWithoutInstance": {
			reason:     "an instance is read only if virt-controller has reported one",
			vm:         there,
			call:       status,
			fails:      spi.ErrUninitialized,
			roundTrips: 1,
			requests:   []string{"GET m"},
		},
		"Status": {
			reason:     "the VirtualMachine shows whether there is an instance to read",
			vm:         started,
			call:       status,
			fails:      spi.ErrUninitialized,
			roundTrips: 2,
			requests:   []string{"GET m", "GET m"},
		},
		"Create": {
			reason:     "the Secret exists before the VirtualMachine, which could not boot without it",
			call:       create(plain),
			roundTrips: 2,
			requests:   []string{"POST secrets", "POST virtualmachines"},
		},
		"CreateWithKeysAndNewImage": {
			reason:     "what the VirtualMachine needs does not depend on each other",
			call:       create(image, "ssh-ed25519 AAAA one"),
			roundTrips: 2,
			requests:   []string{"POST secrets", "POST secrets", "POST datavolumes", "POST virtualmachines"},
		},
		"CreateMigratable": {
			reason:     "what the access modes of the disk are is read while the rest is created",
			call:       migratable,
			roundTrips: 2,
			requests:   []string{"GET shared", "POST secrets", "POST datavolumes", "POST virtualmachines"},
		},
		"Delete": {
			reason:     "the watch begins with the deletion, and the Secrets are deleted while the instance, which is usually gone, is read",
			vm:         there,
			call:       remove,
			roundTrips: 3,
			requests:   []string{"GET m", "DELETE m", "GET virtualmachines", "GET m", "DELETE secrets"},
		},
		"DeleteRefused": {
			reason:     "a call does not wait for a deletion that was refused, and deletes nothing else",
			vm:         there,
			refuses:    true,
			call:       remove,
			fails:      spi.ErrForbidden,
			roundTrips: 2,
			requests:   []string{"GET m", "DELETE m", "GET virtualmachines"},
		},
		"DeletedBefore": {
			reason:     "only a VirtualMachine that was deleted before may have lost its DataVolumes",
			vm:         leaving,
			call:       remove,
			roundTrips: 4,
			requests:   []string{"GET m", "GET virtualmachines", "GET m", "DELETE secrets", "DELETE datavolumes"},
		},
		"DeletedWithoutVirtualMachine": {
			reason:     "nothing of the rest depends on each other",
			call:       remove,
			roundTrips: 3,
			requests:   []string{"GET m", "GET m", "DELETE secrets", "DELETE datavolumes"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			kubeconfig := hostile.KubeconfigOf(t, &api.Cluster{Server: "https://provider.example.com"})

			synctest.Test(t, func(t *testing.T) {
				server := &distant{vm: tc.vm.DeepCopy(), refuses: tc.refuses}
				clients := providerapi.NewCache(providerapi.Options{
					QPS:           1000,
					Burst:         1000,
					WrapTransport: func(http.RoundTripper) http.RoundTripper { return server },
				})
				m := NewMachines(clients, images.NewManager(clock.RealClock{}, time.Hour), Options{OrphanPeriod: time.Hour})

				began := time.Now()
				if server.vm != nil {
					server.vm.CreationTimestamp = metav1.NewTime(began)
				}

				require.ErrorIs(t, tc.call(t, m, kubeconfig), tc.fails)
				require.Equal(t, fmt.Sprint(tc.roundTrips), fmt.Sprint(float64(time.Since(began))/float64(roundTrip)), tc.reason)
				synctest.Wait() // A watch that was cancelled may not be recorded yet.
				require.ElementsMatch(t, tc.requests, server.received)
			})
		})
	}
}

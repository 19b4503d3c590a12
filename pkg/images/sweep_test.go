// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi/pages"
)

const (
	imageKey  = "key"
	imageName = "golden-2c70e12b7a0646f92279" // of this key

	candidateItem = `{"metadata":{"name":"` + imageName + `","namespace":"ns","uid":"u","resourceVersion":"1",
	"labels":{"mcm.gardener.cloud/cluster":"c","` + v1alpha1.LabelGoldenImage + `":"` + imageName + `"},
	"annotations":{"` + v1alpha1.AnnotationGoldenImageKey + `":"` + imageKey + `"}}}`
	vmItem    = `{"metadata":{"name":"m","labels":{"` + v1alpha1.LabelGoldenImage + `":"` + imageName + `"}}}`
	cloneItem = `{"metadata":{"name":"clone","namespace":"ns"},"spec":{"source":{"pvc":{"name":"` + imageName + `","namespace":"ns"}}}}`
	diskItem  = `{"metadata":{"name":"disk","namespace":"ns","labels":{"` + v1alpha1.LabelGoldenImage + `":"` + imageName + `"},
	"ownerReferences":[{"controller":true,"kind":"VirtualMachine","name":"m","uid":"v"}]},"spec":{"source":{"pvc":{"name":"` + imageName + `"}}}}`
)

// server is a provider cluster with one image. It answers each list with one page.
type server struct {
	// items are the items of the lists, by name: "datavolumes", "metadata of datavolumes" or "metadata of virtualmachines".
	items map[string]string
	// endless is a list whose pages do not end. pages counts them.
	endless string
	pages   atomic.Int32
	deleted atomic.Int32
	// conflicts is how many deletions are rejected, since the image has changed.
	conflicts atomic.Int32
}

func newServer() *server {
	return &server{items: map[string]string{"metadata of datavolumes": candidateItem}}
}

// ServeHTTP implements http.Handler.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")

	if r.Method == http.MethodDelete {
		if s.conflicts.Add(-1) >= 0 {
			w.WriteHeader(http.StatusConflict)
			_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":409,"reason":"Conflict"}`)

			return
		}

		s.deleted.Add(1)

		_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Success"}`)

		return
	}

	if path.Base(r.URL.Path) == imageName {
		_, _ = io.WriteString(w, `{"kind":"DataVolume","apiVersion":"cdi.kubevirt.io/v1beta1",`+s.items["metadata of datavolumes"][1:])

		return
	}

	list := path.Base(r.URL.Path)
	kind := `"DataVolumeList","apiVersion":"cdi.kubevirt.io/v1beta1"`
	next := ""
	if strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadataList") {
		list = "metadata of " + list
		kind = `"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1"`
	}

	if list == s.endless {
		next = strconv.Itoa(int(s.pages.Add(1)))
	}

	_, _ = fmt.Fprintf(w, `{"kind":%s,"metadata":{"continue":%q},"items":[%s]}`, kind, next, s.items[list])
}

// clients returns the clients of the server.
func (s *server) clients(t *testing.T) *providerapi.Clients {
	t.Helper()

	return clientsOf(t, httptest.NewTLSServer(s))
}

func clientsOf(t *testing.T, server *httptest.Server) *providerapi.Clients {
	t.Helper()
	t.Cleanup(server.Close)

	raw, err := clientcmd.Write(clientcmdapi.Config{
		CurrentContext: "x",
		Contexts:       map[string]*clientcmdapi.Context{"x": {Cluster: "c", AuthInfo: "u", Namespace: "ns"}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"u": {Token: "t"}},
		Clusters: map[string]*clientcmdapi.Cluster{"c": {
			Server:                   server.URL,
			CertificateAuthorityData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
		}},
	})
	require.NoError(t, err)

	clients, err := providerapi.NewCache(providerapi.Options{QPS: 1000, Burst: 1000}).For(raw)
	require.NoError(t, err)

	return clients
}

const period = 30 * time.Minute

func class(name, image string, deleted bool) Class {
	return Class{Cluster: "c", Name: types.NamespacedName{Namespace: "n", Name: name}, Image: image, Deleted: deleted}
}

// TestSweep_EndlessList has a server return one of the lists without end: no image is deleted.
func TestSweep_EndlessList(t *testing.T) {
	t.Parallel()

	for _, endless := range []string{"", "metadata of datavolumes", "datavolumes", "metadata of virtualmachines"} {
		t.Run(endless, func(t *testing.T) {
			t.Parallel()

			s := newServer()
			m := NewManager(clocktesting.NewFakePassiveClock(time.Now()), period)
			s.endless = endless
			m.RegisterClass(class("k", imageName, true))
			m.MachineDeleted(t.Context(), s.clients(t), class("k", imageName, true))

			if endless == "" {
				require.EqualValues(t, 1, s.deleted.Load())

				return
			}

			require.EqualValues(t, pages.MaxPages, s.pages.Load())
			require.Zero(t, s.deleted.Load(), "a part of a list is never used")
		})
	}
}

// TestMachineDeleted_OtherShoot keeps the image of a Shoot in another landscape with the same technical ID.
func TestMachineDeleted_OtherShoot(t *testing.T) {
	t.Parallel()

	for uid, deleted := range map[string]int32{"own": 1, "other": 0, "": 1} {
		t.Run(uid, func(t *testing.T) {
			t.Parallel()

			s := newServer()
			m := NewManager(clocktesting.NewFakePassiveClock(time.Now()), period)
			s.items["metadata of datavolumes"] = strings.Replace(candidateItem, `"labels":{`, `"labels":{"`+v1alpha1.TagShootUID+`":"own",`, 1)

			of := class("k", imageName, true)
			of.ShootUID = uid
			m.RegisterClass(of)
			m.MachineDeleted(t.Context(), s.clients(t), of)
			require.Equal(t, deleted, s.deleted.Load())
		})
	}
}

// TestSweep_ImagesInUse refers to the image of a MachineClass that is being deleted.
func TestSweep_ImagesInUse(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		reason, list, item string
		deleted            int32
	}{
		"Machine":      {"it was created from the image", "metadata of virtualmachines", vmItem, 0},
		"Clone":        {"it is in progress", "datavolumes", cloneItem, 0},
		"Complete":     {"it needs the image no more", "datavolumes", strings.Replace(cloneItem, `"spec"`, `"status":{"phase":"Succeeded"},"spec"`, 1), 1},
		"Deleted":      {"it needs the image no more", "datavolumes", strings.Replace(cloneItem, `"name":"clone"`, `"name":"clone","deletionTimestamp":"2026-01-01T00:00:00Z"`, 1), 1},
		"DiskLeftOver": {"its machine is gone", "datavolumes", diskItem, 1},
		"OtherSource":  {"it is cloned from another claim", "datavolumes", strings.ReplaceAll(cloneItem, imageName, "other"), 1},
		"Elsewhere":    {"it is cloned from another namespace", "datavolumes", strings.Replace(cloneItem, `"namespace":"ns"}}`, `"namespace":"other"}}`, 1), 1},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			s := newServer()
			m := NewManager(clocktesting.NewFakePassiveClock(time.Now()), period)
			s.items[tc.list] = tc.item
			m.RegisterClass(class("k", imageName, true))
			m.MachinesListed(t.Context(), s.clients(t), class("k", imageName, true))
			require.Equal(t, tc.deleted, s.deleted.Load(), tc.reason)
		})
	}
}

// TestDeleteImage_Conflict has an image change between the list and its deletion.
func TestDeleteImage_Conflict(t *testing.T) {
	t.Parallel()

	for conflicts, deleted := range map[int32]int32{1: 1, 100: 0} {
		s := newServer()
		m := NewManager(clocktesting.NewFakePassiveClock(time.Now()), period)
		s.conflicts.Store(conflicts)
		m.RegisterClass(class("k", imageName, true))
		m.MachineDeleted(t.Context(), s.clients(t), class("k", imageName, true))
		require.Equal(t, deleted, s.deleted.Load(), "%d conflicts", conflicts)
	}
}

// TestSweep_HeldImage requires a sweep to skip an image that a call holds.
func TestSweep_HeldImage(t *testing.T) {
	t.Parallel()

	s := newServer()
	m := NewManager(clocktesting.NewFakePassiveClock(time.Now()), period)
	clients := s.clients(t)

	m.RegisterClass(class("k", imageName, true))

	release := m.states.share(refOf(clients, imageName))
	m.MachineDeleted(t.Context(), clients, class("k", imageName, true))
	require.Zero(t, s.deleted.Load())

	release()
	m.MachineDeleted(t.Context(), clients, class("k", imageName, true))
	require.EqualValues(t, 1, s.deleted.Load())
}

// TestSweep_UnknownImages deletes images without a MachineClass after all MachineClasses were listed
// twice.
func TestSweep_UnknownImages(t *testing.T) {
	t.Parallel()

	s := newServer()
	clock := clocktesting.NewFakePassiveClock(time.Now())
	clients := s.clients(t)
	m := NewManager(clock, period)
	other := class("other", "golden-other", false)

	list := func(after time.Duration) int32 {
		clock.SetTime(clock.Now().Add(after))
		m.RegisterClass(other)
		m.MachinesListed(t.Context(), clients, other)

		return s.deleted.Load()
	}

	require.Zero(t, list(0))
	require.Zero(t, list(period+time.Second), "a MachineClass may not have been listed yet")
	require.Zero(t, list(2*period+time.Second), "after a gap, it begins again")
	require.Zero(t, list(period))
	require.EqualValues(t, 1, list(period))
	require.EqualValues(t, 1, list(period/2), "once per period")
	require.EqualValues(t, 2, list(period))
}

// TestMachinesListed_ImageImportedAhead creates an image after all MachineClasses were listed, as
// Gardener's extension does for a new MachineClass, and lists the machines of another one first.
func TestMachinesListed_ImageImportedAhead(t *testing.T) {
	t.Parallel()

	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	s := newServer()
	clock := clocktesting.NewFakePassiveClock(began)
	s.items["metadata of datavolumes"] = strings.Replace(candidateItem, `"uid"`, `"creationTimestamp":"`+began.Add(2*period).Format(time.RFC3339)+`","uid"`, 1)
	clients := s.clients(t)
	m := NewManager(clock, period)
	other := class("other", "golden-other", false)

	list := func(class Class) int32 {
		m.RegisterClass(class)
		m.MachinesListed(t.Context(), clients, class)

		return s.deleted.Load()
	}

	for range 4 { // The image is created before the third listing.
		require.Zero(t, list(other))
		clock.SetTime(clock.Now().Add(period))
	}

	require.Zero(t, list(other), "the MachineClass may not have been listed since")
	clock.SetTime(clock.Now().Add(period + time.Second))
	require.EqualValues(t, 1, list(other), "the MachineClass would have been listed twice")

	require.EqualValues(t, 2, list(class("deleted", imageName, true)), "a MachineClass that is being deleted needs no image of any age")
}

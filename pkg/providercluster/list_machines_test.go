// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providercluster

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/images"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi/pages"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/hostile"
)

// page is one page of a list. One of a negative size is an error.
type page struct {
	size int
	next string
	// shootUIDs are the values of v1alpha1.TagShootUID of the first objects.
	shootUIDs []string
}

// serveList returns the kubeconfig of a server that returns a list in pages: the page of each
// continue token, and how many were asked for.
func serveList(t *testing.T, pageOf func(token string) page) (raw []byte, asked *atomic.Int32) {
	t.Helper()

	asked = &atomic.Int32{}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)

		p := pageOf(r.URL.Query().Get("continue"))
		if p.size < 0 {
			w.WriteHeader(http.StatusForbidden)

			return
		}

		list := metav1.PartialObjectMetadataList{
			TypeMeta: metav1.TypeMeta{Kind: "PartialObjectMetadataList", APIVersion: "meta.k8s.io/v1"},
			ListMeta: metav1.ListMeta{Continue: p.next},
		}

		for i := range p.size {
			name := "m" + r.URL.Query().Get("continue") + "-" + strconv.Itoa(i)
			object := metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}

			if i < len(p.shootUIDs) {
				object.Labels = map[string]string{v1alpha1.TagShootUID: p.shootUIDs[i]}
			}

			list.Items = append(list.Items, object)
		}

		w.Header().Set("Content-Type", "application/json")

		if err := json.NewEncoder(w).Encode(list); err != nil {
			t.Log(err) // The driver may hang up.
		}
	}))
	t.Cleanup(server.Close)

	return hostile.Kubeconfig(t, server), asked
}

// TestListMachines_OmitsOtherShoots requires that machine-controller-manager never takes the machines of a
// Shoot in another landscape, which has the same technical ID and namespace, for orphans.
func TestListMachines_OmitsOtherShoots(t *testing.T) {
	t.Parallel()

	raw, _ := serveList(t, func(string) page { return page{size: 3, shootUIDs: []string{"own", "other"}} })
	clients := providerapi.NewCache(providerapi.Options{QPS: 1000, Burst: 1000})
	p := NewMachines(clients, images.NewManager(clock.RealClock{}, time.Hour), Options{})

	for uid, want := range map[string][]string{
		"own": {"m-0", "m-2"}, // The last one is older than the tag.
		"":    {"m-0", "m-1", "m-2"},
	} {
		machines, err := p.ListMachines(t.Context(), &spi.ListMachinesInput{
			Kubeconfig: raw,
			Identity:   spi.Identity{Cluster: "c", Role: "node"},
			Class:      spi.Class{ShootUID: uid},
		})
		require.NoError(t, err)

		var names []string
		for _, machine := range machines {
			names = append(names, machine.Name)
		}

		require.Equal(t, want, names)
	}
}

// TestHostilePages has a server return lists of all lengths. An incomplete list must be
// an error, because machine-controller-manager deletes machines by these lists. It is not parallel: beside the other hostile
// servers, a busy machine cannot serve hundreds of pages before the client gives up.
func TestHostilePages(t *testing.T) {
	// numbered is a list with count pages of this size.
	numbered := func(count, size int) func(string) page {
		return func(token string) page {
			number, _ := strconv.Atoi(token) // The first page has none.
			if number+1 == count {
				return page{size: size}
			}

			return page{size: size, next: strconv.Itoa(number + 1)}
		}
	}

	const forever = 1_000_000

	tests := map[string]struct {
		reason string
		pageOf func(string) page
		// want is the number of listed machines, or the error; asked is the number of requested pages.
		want  int
		err   error
		asked int32
	}{
		"Empty":         {"no machines", numbered(1, 0), 0, nil, 1},
		"Full":          {"as many as there may be", numbered(40, 500), providerapi.MaxObjects, nil, 40},
		"Sparse":        {"a server need not fill its pages", numbered(pages.MaxPages, 1), pages.MaxPages, nil, pages.MaxPages},
		"OneTooMany":    {"the bound is one", numbered(41, 500), 0, spi.ErrUnavailable, 41},
		"Endless":       {"full pages without end", numbered(forever, 500), 0, spi.ErrUnavailable, 41},
		"EndlessSparse": {"empty pages without end", numbered(forever, 0), 0, spi.ErrUnavailable, pages.MaxPages},
		"LargePages":    {"a server that does not know limits", numbered(forever, providerapi.MaxObjects/2+1), 0, spi.ErrUnavailable, 2},
		"Circle": {"a page that leads back to itself", func(string) page {
			return page{size: 1, next: "x"}
		}, 0, spi.ErrUnavailable, 2},
		"WideCircle": {"pages that lead back to each other", func(token string) page {
			return page{size: 1, next: map[string]string{"": "x", "x": "y", "y": "x"}[token]}
		}, 0, spi.ErrUnavailable, pages.MaxPages},
		"Broken": {"an error in the middle", func(token string) page {
			return map[string]page{"": {size: 500, next: "x"}, "x": {size: -1}}[token]
		}, 0, spi.ErrForbidden, 2},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			raw, asked := serveList(t, tc.pageOf)
			clients := providerapi.NewCache(providerapi.Options{QPS: 1000, Burst: 1000, RetryFor: 15 * time.Second})
			p := NewMachines(clients, images.NewManager(clock.RealClock{}, time.Hour), Options{})

			machines, err := p.ListMachines(t.Context(), &spi.ListMachinesInput{Kubeconfig: raw, Identity: spi.Identity{Cluster: "c", Role: "node"}})
			require.ErrorIs(t, err, tc.err, tc.reason)
			require.Len(t, machines, tc.want, tc.reason)
			require.Equal(t, tc.asked, asked.Load(), "another attempt would be as long")
		})
	}
}

// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"cmp"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/hostile"
)

// rejecting is a provider cluster that rejects migrations of an instance, as virt-api does while another
// one has not ended.
type rejecting struct {
	mu       sync.Mutex
	phases   []kubevirtv1.VirtualMachineInstanceMigrationPhase // of the foreign migrations
	requests []string
}

func (s *rejecting) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()

	s.requests = append(s.requests, strings.TrimSpace(r.Method+" "+r.URL.Query().Get("labelSelector")))

	w.Header().Set("Content-Type", "application/json")

	if r.Method == http.MethodPost {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte(`{"apiVersion": "v1", "kind": "Status", "status": "Failure", "reason": "BadRequest", "code": 400, "message": "in-flight migration detected"}`))

		return
	}

	list := kubevirtv1.VirtualMachineInstanceMigrationList{}
	for _, phase := range s.phases {
		list.Items = append(list.Items, kubevirtv1.VirtualMachineInstanceMigration{Status: kubevirtv1.VirtualMachineInstanceMigrationStatus{Phase: phase}})
	}

	_ = json.NewEncoder(w).Encode(list) //nolint:errchkjson // a test
}

// change replaces the foreign migrations.
func (s *rejecting) change(phases ...kubevirtv1.VirtualMachineInstanceMigrationPhase) {
	s.mu.Lock()
	defer s.mu.Unlock()

	s.phases = phases
}

// sent returns the requests since the last call.
func (s *rejecting) sent() []string {
	s.mu.Lock()
	defer s.mu.Unlock()

	requests := s.requests
	s.requests = nil

	return requests
}

const lists = "GET kubevirt.io/vmi-name=a"

// evacuationsAt returns the evacuation of the instance a, with the watches' caches and a server.
func evacuationsAt(t *testing.T, server http.Handler) *evacuations {
	t.Helper()

	s := httptest.NewTLSServer(server)
	t.Cleanup(s.Close)

	clients, err := providerapi.NewCache(providerapi.Options{QPS: 100, Burst: 100}).For(hostile.Kubeconfig(t, s))
	require.NoError(t, err)

	e := newEvacuations(t, []*kubevirtv1.VirtualMachineInstance{markedInstanceOn("a", "host")})
	e.clients = clients

	return e
}

// TestAcceptForeignMigration has foreign migrations in several phases.
func TestAcceptForeignMigration(t *testing.T) {
	t.Parallel()

	type phases = []kubevirtv1.VirtualMachineInstanceMigrationPhase

	tests := map[string]struct {
		reason    string
		machine   string // a if empty
		others    phases
		requests  []string
		explained bool
	}{
		"None":     {reason: "another webhook has rejected it", requests: []string{"POST", lists}},
		"Ended":    {reason: "it is not in the way", others: phases{kubevirtv1.MigrationFailed, kubevirtv1.MigrationSucceeded}, requests: []string{"POST", lists}},
		"Pending":  {reason: "it is queued", others: phases{kubevirtv1.MigrationFailed, kubevirtv1.MigrationPending}, requests: []string{"POST", lists}, explained: true},
		"New":      {reason: "virt-controller has not seen it", others: phases{""}, requests: []string{"POST", lists}, explained: true},
		"LongName": {reason: "it cannot be a label", machine: strings.Repeat("a", 64), requests: []string{"POST"}},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			server := &rejecting{phases: tc.others}
			e := evacuationsAt(t, server)

			err := e.Migrate(t.Context(), &spi.Evacuation{Machine: cmp.Or(tc.machine, "a"), UID: "a", Node: "host"})
			if tc.explained {
				require.NoError(t, err, tc.reason)
			} else {
				require.ErrorIs(t, err, spi.ErrInvalid, tc.reason)
				require.ErrorContains(t, err, "in-flight migration detected")
			}

			require.Equal(t, tc.requests, server.sent())

			seen := e.evacuationOf(markedInstanceOn("a", "host"))
			require.Equal(t, tc.explained, seen.Migration == spi.MigrationForeign)
			require.Equal(t, tc.explained, !seen.MigrationSince.IsZero())
		})
	}
}

// TestRefreshForeignMigrations lets a foreign migration fail and another one begin: since is the time
// of the first one.
func TestRefreshForeignMigrations(t *testing.T) {
	t.Parallel()

	server := &rejecting{phases: []kubevirtv1.VirtualMachineInstanceMigrationPhase{kubevirtv1.MigrationPending}}
	e := evacuationsAt(t, server)
	state := func() spi.Evacuation { return e.evacuationOf(markedInstanceOn("a", "host")) }
	evacuation := state()

	require.NoError(t, e.MaintainMigrations(t.Context()))
	require.Empty(t, server.sent(), "nothing is known")

	require.NoError(t, e.Migrate(t.Context(), &evacuation))
	require.Equal(t, []string{"POST", lists}, server.sent())

	first := state().MigrationSince

	e.foreignPeriod = time.Hour
	require.NoError(t, e.MaintainMigrations(t.Context()))
	require.Empty(t, server.sent(), "it was read recently")

	e.foreignPeriod = 0
	require.NoError(t, e.MaintainMigrations(t.Context()))
	require.Equal(t, []string{lists}, server.sent())
	require.Equal(t, spi.MigrationForeign, state().Migration)

	server.change(kubevirtv1.MigrationFailed)
	require.NoError(t, e.MaintainMigrations(t.Context()))
	require.Equal(t, spi.MigrationNone, state().Migration, "the driver creates its own")

	server.change(kubevirtv1.MigrationFailed, kubevirtv1.MigrationPending)
	require.NoError(t, e.Migrate(t.Context(), &evacuation))
	require.Equal(t, spi.MigrationForeign, state().Migration)
	require.Equal(t, first, state().MigrationSince, "a series of migrations does not postpone the deadline")

	elsewhere := e.evacuationOf(markedInstanceOn("a", "other"))
	require.Equal(t, spi.MigrationNone, elsewhere.Migration, "of another evacuation")
}

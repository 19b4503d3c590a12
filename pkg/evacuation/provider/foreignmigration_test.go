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
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
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

// TestMigrationByKubeVirt has instances that virt-controller migrates, and migrations that virt-api returns.
func TestMigrationByKubeVirt(t *testing.T) {
	t.Parallel()

	const (
		always     = kubevirtv1.EvictionStrategyLiveMigrate
		ifPossible = kubevirtv1.EvictionStrategyLiveMigrateIfPossible
	)

	migration := func(node string, minute int, phase kubevirtv1.VirtualMachineInstanceMigrationPhase) []kubevirtv1.VirtualMachineInstanceMigration {
		return []kubevirtv1.VirtualMachineInstanceMigration{{
			ObjectMeta: metav1.ObjectMeta{
				Annotations:       map[string]string{kubevirtv1.EvacuationMigrationAnnotation: node},
				CreationTimestamp: metav1.NewTime(minutes(minute)),
			},
			Status: kubevirtv1.VirtualMachineInstanceMigrationStatus{Phase: phase},
		}}
	}

	tests := map[string]struct {
		reason     string
		strategy   kubevirtv1.EvictionStrategy
		immovable  bool
		moving     bool
		migrations []kubevirtv1.VirtualMachineInstanceMigration
		want       spi.Migration
		unmarked   bool
	}{
		"None":          {reason: "virt-controller will create it", strategy: always, want: spi.MigrationForeign},
		"Queued":        {reason: "it is awaited", strategy: always, migrations: migration("host", 1, kubevirtv1.MigrationPending), want: spi.MigrationForeign},
		"Failed":        {reason: "the next one may fail as well", strategy: always, migrations: migration("host", 1, kubevirtv1.MigrationFailed), want: spi.MigrationFailed},
		"Possible":      {reason: "the drain would hang", strategy: ifPossible, migrations: migration("host", 1, kubevirtv1.MigrationFailed), want: spi.MigrationFailed},
		"FailedEarlier": {reason: "it belongs to an earlier drain", strategy: always, migrations: migration("host", -1, kubevirtv1.MigrationFailed), want: spi.MigrationForeign},
		"FailedForUser": {reason: "it belongs to no drain", strategy: always, migrations: migration("", 1, kubevirtv1.MigrationFailed), want: spi.MigrationForeign},
		"Running":       {reason: "an earlier one had failed", strategy: always, moving: true, migrations: migration("host", 1, kubevirtv1.MigrationFailed), want: spi.MigrationRunning},
		"Immovable":     {reason: "virt-controller does nothing", strategy: always, immovable: true, want: spi.MigrationNone},
		"LetPass":       {reason: "KubeVirt permits its eviction", strategy: ifPossible, immovable: true, unmarked: true},
		"NoStrategy":    {reason: "KubeVirt permits its eviction", strategy: kubevirtv1.EvictionStrategyNone, unmarked: true},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			e := evacuationsAt(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				_ = json.NewEncoder(w).Encode(kubevirtv1.VirtualMachineInstanceMigrationList{Items: tc.migrations})
			}))

			instance := markedInstanceOn("a", "host")
			instance.Spec.EvictionStrategy = &tc.strategy
			instance.Status.Conditions = []kubevirtv1.VirtualMachineInstanceCondition{
				{Type: kubevirtv1.VirtualMachineInstanceEvictionRequested, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(drainStart)},
				{Type: kubevirtv1.VirtualMachineInstanceIsMigratable, Status: corev1.ConditionTrue},
			}

			if tc.immovable {
				instance.Status.Conditions[1].Status = corev1.ConditionFalse
			}

			if tc.moving {
				instance.Status.MigrationState = &kubevirtv1.VirtualMachineInstanceMigrationState{StartTimestamp: ptr.To(metav1.NewTime(minutes(2)))}
			}

			require.NoError(t, e.instanceInformer.GetStore().Update(instance))
			require.NoError(t, e.MaintainMigrations(t.Context()))

			marked := e.markedInstances()
			if tc.unmarked {
				require.Empty(t, marked, tc.reason)

				return
			}

			require.Len(t, marked, 1)
			require.Equal(t, tc.want, e.evacuationOf(marked[0]).Migration, tc.reason)
		})
	}
}

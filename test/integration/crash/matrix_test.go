// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package crash

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

// matrix records the faults that were injected into each call.
type matrix struct {
	mu   sync.Mutex
	rows map[string]map[string]bool
	runs int
}

func newMatrix() *matrix {
	return &matrix{rows: map[string]map[string]bool{}}
}

func (m *matrix) add(faults []harness.Fault, calls map[string]int) {
	m.mu.Lock()
	defer m.mu.Unlock()

	m.runs++

	for call, met := range calls {
		if m.rows[call] == nil {
			m.rows[call] = map[string]bool{}
		}

		for _, f := range faults[:met] {
			m.rows[call][f.Name] = true
		}
	}
}

// calls returns every disturbed call.
func (m *matrix) calls() map[string]bool {
	m.mu.Lock()
	defer m.mu.Unlock()

	calls := map[string]bool{}
	for call := range m.rows {
		calls[call] = true
	}

	return calls
}

// requireComplete requires that every fault was injected into every call. It ignores repeated
// calls, since their number may depend on the duration of other operations.
func (m *matrix) requireComplete(t *testing.T) {
	t.Helper()

	for call, met := range m.rows {
		for _, f := range slices.Concat(matrixFaults()...) {
			require.True(t, met[f.Name] || strings.Contains(call, ", no. "), "the fault %q was never injected into %q: add a scenario that always makes this call", f.Name, call)
		}
	}
}

// requireRights requires that the driver used every permission of its Role.
func (m *matrix) requireRights(t *testing.T) {
	t.Helper()

	s := harness.NewShoot(t)
	used := map[string]bool{}

	for call := range m.rows {
		_, asked, _ := strings.Cut(call, ": ")
		verb, objects, _ := strings.Cut(asked, " ")
		used[verb+" "+strings.FieldsFunc(objects, func(r rune) bool { return r == ' ' || r == ',' })[0]] = true
	}

	role, err := s.Kube.RbacV1().Roles(s.ProviderNamespace).Get(t.Context(), "machine-controller", metav1.GetOptions{})
	require.NoError(t, err)

	for _, rule := range role.Rules {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				require.True(t, used[verb+" "+resource], "the Role grants %s %s, which no scenario uses: add a scenario that does, or remove the permission", verb, resource)
			}
		}
	}
}

func (m *matrix) String() string {
	m.mu.Lock()
	defer m.mu.Unlock()

	var b strings.Builder

	cells := 0

	for _, call := range slices.Sorted(maps.Keys(m.rows)) {
		fmt.Fprintf(&b, "%-61s %s\n", call, strings.Join(slices.Sorted(maps.Keys(m.rows[call])), ", "))
		cells += len(m.rows[call])
	}

	fmt.Fprintf(&b, "%d calls, %d cells", len(m.rows), cells)

	return b.String()
}

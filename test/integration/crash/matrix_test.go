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

// matrix collects which calls met which faults.
type matrix struct {
	mu    sync.Mutex
	rows  map[string]map[string]bool
	lived int
}

func newMatrix() *matrix {
	return &matrix{rows: map[string]map[string]bool{}}
}

func (m *matrix) add(faults []harness.Fault, calls map[string]int) {
	m.mu.Lock()
	defer m.mu.Unlock()

	m.lived++

	for call, met := range calls {
		if m.rows[call] == nil {
			m.rows[call] = map[string]bool{}
		}

		for _, f := range faults[:met] {
			m.rows[call][f.Name] = true
		}
	}
}

// calls returns every call that was met.
func (m *matrix) calls() map[string]bool {
	m.mu.Lock()
	defer m.mu.Unlock()

	calls := map[string]bool{}
	for call := range m.rows {
		calls[call] = true
	}

	return calls
}

// requireComplete requires that every fault happened to every call. How often a method asks the same again may depend on the time
// that others take.
func (m *matrix) requireComplete(t *testing.T) {
	t.Helper()

	for call, met := range m.rows {
		for _, f := range slices.Concat(matrixFaults()...) {
			require.True(t, met[f.Name] || strings.Contains(call, ", no. "), "%q did not happen to %q: it needs a life that makes it for certain", f.Name, call)
		}
	}
}

// requireRights requires that the driver made use of every right that it is granted.
func (m *matrix) requireRights(t *testing.T) {
	t.Helper()

	s, used := harness.NewShoot(t), map[string]bool{}

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
				require.True(t, used[verb+" "+resource], "the Role grants %s %s: it needs a life that makes use of it", verb, resource)
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

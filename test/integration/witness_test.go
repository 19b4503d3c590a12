package integration

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// requireBudgetsKept requires that no application ever lacked more than the one pod that its
// PodDisruptionBudget allows.
func (m *maintained) requireBudgetsKept(t *testing.T) {
	t.Helper()

	m.Mu.Lock()
	defer m.Mu.Unlock()

	for _, app := range m.apps {
		require.GreaterOrEqual(t, m.Ready[app.Name], int(app.Replicas)-1, "%s: so few pods were ready at a time", app.Name)
	}
}

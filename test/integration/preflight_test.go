package integration

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/preflight"
)

func TestPreflight(t *testing.T) {
	t.Parallel()

	s := newShoot(t)

	t.Run("AllIsWell", func(t *testing.T) {
		t.Parallel()

		got := s.flight(t).run(t, s)
		require.Empty(t, got.bad())
		require.Equal(t, 0, got.code)
		t.Log(got.text)
	})
	t.Run("Alone", func(t *testing.T) {
		t.Parallel()

		f := s.flight(t)
		f.admin = nil

		got := f.run(t, s)
		for _, r := range got.bad() {
			require.Equal(t, preflight.Warning, r.Level)
			t.Log(r)
		}

		require.Equal(t, 0, got.code)
	})
}

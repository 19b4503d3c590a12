package kubevirt

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/gardener/machine-controller-manager/pkg/util/provider/machinecodes/codes"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/machinecodes/status"
	"github.com/stretchr/testify/require"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

func TestStatusFrom(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		err  error
		want codes.Code
	}{
		"Invalid":         {spi.ErrInvalid, codes.InvalidArgument},
		"NotFound":        {spi.ErrNotFound, codes.NotFound},
		"Foreign":         {spi.ErrForeign, codes.AlreadyExists},
		"Uninitialized":   {spi.ErrUninitialized, codes.Uninitialized},
		"Conflict":        {spi.ErrConflict, codes.Aborted},
		"Exhausted":       {spi.ErrExhausted, codes.ResourceExhausted},
		"Unauthenticated": {spi.ErrUnauthenticated, codes.Unauthenticated},
		"Forbidden":       {spi.ErrForbidden, codes.PermissionDenied},
		"Precondition":    {spi.ErrPrecondition, codes.FailedPrecondition},
		"Unavailable":     {spi.ErrUnavailable, codes.Unavailable},
		"Timeout":         {spi.ErrTimeout, codes.DeadlineExceeded},
		"Unmapped":        {errors.New("surprise"), codes.Unknown},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			err := statusFrom(fmt.Errorf("%w: vm[ns/x]: %w", tc.err, errors.New("a] [b")))
			got, ok := status.FromError(err)
			require.True(t, ok, "machine-controller-manager must be able to read the code back")
			require.Equal(t, tc.want, got.Code())
			require.Equal(t, tc.err.Error()+": vm(ns/x): a) (b", got.Message())
		})
	}

	require.NoError(t, statusFrom(nil))
}

func FuzzStatusFrom(f *testing.F) {
	f.Add("x [ y")
	f.Add("a ] [ b")
	f.Add(strings.Repeat("ö", 2000))
	f.Add("\xff\x00\n")
	f.Fuzz(func(t *testing.T, message string) {
		got, ok := status.FromError(statusFrom(fmt.Errorf("%w: %s", spi.ErrExhausted, message)))
		require.True(t, ok)
		require.Equal(t, codes.ResourceExhausted, got.Code())
		require.LessOrEqual(t, len(got.Message()), maxText)
		require.True(t, utf8.ValidString(got.Message()))
	})
}

// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// endlessReader has events without an end.
type endlessReader struct{}

func (endlessReader) Read(p []byte) (int, error) { return len(p), nil }

// TestPaced_End ends a watch neither at once nor faster than its average rate.
func TestPaced_End(t *testing.T) {
	t.Parallel()

	for name, tc := range map[string]struct {
		reason string
		body   io.Reader
		takes  time.Duration
		bytes  int64
	}{
		"OneEvent": {"clients begin another watch as soon as it ends", strings.NewReader("{}"), time.Second, 2},
		"Endless":  {"events may come as fast as the server can send them", endlessReader{}, 17 * time.Second, maxWatch},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				n, err := io.Copy(io.Discard, newPaced(t.Context(), io.NopCloser(tc.body)))
				require.Equal(t, tc.bytes>>20, n>>20)
				require.Equal(t, tc.takes, time.Since(began).Truncate(time.Second), tc.reason)

				if name == "Endless" {
					require.ErrorIs(t, err, io.EOF)
				} else {
					require.NoError(t, err)
				}
			})
		})
	}
}

// TestPaced_Cancelled does not delay a client that is stopped.
func TestPaced_Cancelled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()

		_, err := io.ReadAll(newPaced(ctx, io.NopCloser(strings.NewReader("{}"))))
		require.NoError(t, err)
		require.Equal(t, began, time.Now())
	})
}

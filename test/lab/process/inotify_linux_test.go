// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCheckInotify(t *testing.T) {
	t.Parallel()

	require.NoError(t, CheckInotify(1))

	err := checkInotify(3, func() func() (int, error) {
		left := 2

		return func() (int, error) {
			if left--; left < 0 {
				return 0, syscall.EMFILE
			}

			return syscall.Dup(int(os.Stdin.Fd()))
		}
	}())
	require.ErrorIs(t, err, syscall.EMFILE)
	require.ErrorContains(t, err, "needs 3 instances of inotify, and this user can have only 2 more")
	require.ErrorContains(t, err, "sysctl -w fs.inotify.max_user_instances=1024")
}

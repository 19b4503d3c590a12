// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

//go:build guest

package guest

import (
	"context"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

// newKey returns the file of a new private key; the public key is in FILE.pub.
func newKey(t *testing.T) string {
	t.Helper()

	file := filepath.Join(t.TempDir(), "key")
	output, err := exec.CommandContext(t.Context(), "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "operator", "-f", file).CombinedOutput()
	require.NoError(t, err, string(output))

	return file
}

// loginLimit bounds a command in the guest, which is slow while it boots.
const loginLimit = 15 * time.Minute

// login runs a command in the guest as an operator with the SSH key does, and returns its output.
func (w *worker) login(ctx context.Context, t *testing.T, command string) (string, error) {
	t.Helper()

	info, known := harness.Lab().Guests.Find(w.machine.Name)
	require.True(t, known)

	host, port, err := net.SplitHostPort(info.SSH)
	require.NoError(t, err)

	ctx, cancel := context.WithTimeout(ctx, loginLimit)
	defer cancel()

	output, err := exec.CommandContext(ctx, "ssh", "-i", w.key, "-p", port, "-F", "none",
		"-o", "BatchMode=yes", "-o", "IdentitiesOnly=yes", "-o", "ConnectTimeout=60",
		"-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR",
		"debian@"+host, command).CombinedOutput()

	return strings.TrimSpace(string(output)), err
}

// mustLogin requires that a command in the guest succeeds.
func (w *worker) mustLogin(t *testing.T, command string) string {
	t.Helper()

	output, err := w.login(t.Context(), t, command)
	require.NoError(t, err, "%s: %s", command, output)

	return output
}

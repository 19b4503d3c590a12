// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package reasons_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/reasons"
)

// TestFailures_Codes requires a code that Gardener retries for each failure that can be repaired without a change of
// the Shoot: nothing else would start the next attempt.
func TestFailures_Codes(t *testing.T) {
	t.Parallel()

	// Gardener has codes for these causes, and does not retry any of them.
	own := map[string]string{
		"QuotaExceeded":      reasons.InfraQuotaExceeded,
		"CredentialsRefused": reasons.InfraUnauthenticated,
		"PermissionDenied":   reasons.InfraUnauthorized,
		"CloneForbidden":     reasons.InfraUnauthorized,
	}

	for _, f := range reasons.Failures() {
		outside := f.Remedy.CloudProfile + f.Remedy.Provider + f.Remedy.Seed

		switch f.Code {
		case reasons.ConfigurationProblem:
			require.Empty(t, outside, "%s: it can be repaired outside the Shoot, but Gardener does not retry", f.Token)
			require.NotEmpty(t, f.Remedy.Shoot, f.Token)
		case reasons.RetryableConfigurationProblem, reasons.RetryableInfraDependencies, reasons.InfraResourcesDepleted:
			require.NotEmpty(t, outside, "%s: Gardener retries, but only a change of the Shoot repairs it", f.Token)
		default:
			require.Equal(t, own[f.Token], f.Code, f.Token)
		}
	}
}

func TestFailures_Remedies(t *testing.T) {
	t.Parallel()

	seen := map[string]bool{}

	for _, f := range reasons.Failures() {
		require.False(t, seen[f.Token], f.Token)
		seen[f.Token] = true

		text := reasons.RemedyOf(f.Token)
		require.NotEmpty(t, text, f.Token)
		require.Less(t, len(text), 500, "%s: half of the driver's text", f.Token)
		require.NotRegexp(t, `MachineClass of|providerSpec|cloudprovider|kubectl apply`, text, "%s: a user of Gardener does not change it", f.Token)
		require.False(t, strings.HasSuffix(text, "."), "%s: it is the end of a sentence", f.Token)
	}

	require.Empty(t, reasons.RemedyOf("MachineNotFound"), "it is not a failure")
	require.Equal(t, "Shoot: use another volume type; provider cluster: add storage", reasons.RemedyOf("StorageExhausted"))
}

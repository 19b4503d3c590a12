// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package validate

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestNewReport_ShippedWarnings pins the warnings about every shipped
// MachineClass: the one for production has none.
func TestNewReport_ShippedWarnings(t *testing.T) {
	t.Parallel()

	const (
		bridge     = "providerSpec.networks: prevents live migration"
		accessMode = "providerSpec.rootVolume.storage.accessModes: prevents live migration"
		kubeconfig = "credentialsSecretRef: Secret shoot--lab--demo/cloudprovider is not in the files"
	)

	for file, tc := range map[string]struct {
		reason string
		want   []string
	}{
		"machineclass/production.yaml": {"users copy it for production", nil},
		"machineclass/complete.yaml":   {"it shows every field with values that fit together", nil},
		"machineclass/minimal.yaml":    {"it has nothing but the required fields", []string{"nodeTemplate: is missing", bridge}},
		"example": {
			"both run on any storage and network, and getting started creates the Secret with the kubeconfig",
			[]string{kubeconfig, bridge, accessMode},
		},
	} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()

			out, err := run(t, "", "validate", "-f", "../../kubernetes/"+file)
			require.NoError(t, err)

			var warnings []string

			for line := range strings.Lines(out) {
				if warning, found := strings.CutPrefix(strings.TrimSpace(line), "warning"); found {
					warnings = append(warnings, strings.TrimSpace(warning))
				}
			}

			require.Len(t, warnings, len(tc.want), "%s:\n%s", tc.reason, out)

			for i, want := range tc.want {
				require.Contains(t, warnings[i], want, tc.reason)
			}
		})
	}
}

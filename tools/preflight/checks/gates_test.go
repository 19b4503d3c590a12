// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"testing"

	"github.com/stretchr/testify/require"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

func TestGates(t *testing.T) {
	t.Parallel()

	type gates = []string

	const name, alpha = "ExternalNetResourceInjection", "CrossArchitectureVirtualization"

	tests := map[string]struct {
		reason            string
		version           string
		enabled, disabled gates
		want, wantAlpha   bool
	}{
		"Beta19":       {reason: "Beta gates are on since 1.9", version: "v1.9.0", want: true},
		"Beta110":      {reason: "and later", version: "v1.10.2", want: true},
		"Candidate":    {reason: "versions of test builds have suffixes", version: "v1.9.0-rc.1-12-gabcdef", want: true},
		"Beta18":       {reason: "Beta gates were off before 1.9", version: "v1.8.4"},
		"Enabled18":    {reason: "the admin has turned it on", version: "v1.8.4", enabled: gates{"Snapshot", name}, want: true},
		"Disabled19":   {reason: "the admin has turned it off", version: "v1.9.0", disabled: gates{name}},
		"Both":         {reason: "KubeVirt evaluates enabled gates first", version: "v1.9.0", enabled: gates{name}, disabled: gates{name}, want: true},
		"Enabled17":    {reason: "KubeVirt 1.7 does not know the gate", version: "v1.7.0", enabled: gates{name}},
		"Alpha19":      {reason: "the admin has turned an Alpha gate on", version: "v1.9.0", enabled: gates{alpha}, want: true, wantAlpha: true},
		"Alpha18":      {reason: "KubeVirt 1.8 does not know that one", version: "v1.8.4", enabled: gates{alpha}},
		"OthersGate":   {reason: "the admin has turned another one off", version: "v1.9.0", disabled: gates{"Snapshot"}, want: true},
		"NoVersion":    {reason: "KubeVirt is being installed"},
		"NoVersionOn":  {reason: "the gate may be known", enabled: gates{alpha}, wantAlpha: true},
		"WrongVersion": {reason: "the version is untrusted", version: "devel"},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			found := &kubevirtv1.KubeVirt{Status: kubevirtv1.KubeVirtStatus{ObservedKubeVirtVersion: tc.version}}
			found.Spec.Configuration.DeveloperConfiguration = &kubevirtv1.DeveloperConfiguration{FeatureGates: tc.enabled, DisabledFeatureGates: tc.disabled}
			require.Equal(t, tc.want, gateExternalNetResources.on(found), tc.reason)
			require.Equal(t, tc.wantAlpha, gateCrossArchitecture.on(found), tc.reason)
		})
	}
}

func TestOlderThan(t *testing.T) {
	t.Parallel()

	for installed, want := range map[string]bool{"v1.6.0": true, "v1.6.6": true, "v1.7.0": false, "v1.10.2": false, "": false, "devel": false} {
		found := &kubevirtv1.KubeVirt{Status: kubevirtv1.KubeVirtStatus{ObservedKubeVirtVersion: installed}}
		require.Equal(t, want, olderThan(found, "1.7"), "%q", installed)
	}
}

// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestIsOfOtherShoot(t *testing.T) {
	t.Parallel()

	for name, tc := range map[string]struct {
		reason     string
		label, uid string
		want       bool
	}{
		"Same":      {"the shoot's own object", "1", "1", false},
		"Other":     {"a Shoot of another landscape has the same technical ID", "2", "1", true},
		"Unlabeled": {"objects from before the label are adopted", "", "1", false},
		"NoUID":     {"MachineClasses from before the tag", "2", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, IsOfOtherShoot(map[string]string{TagShootUID: tc.label}, tc.uid), tc.reason)
		})
	}
}

// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCheckCDI_NotInstalled has a cluster without the CDI object.
func TestCheckCDI_NotInstalled(t *testing.T) {
	t.Parallel()

	const (
		withVolumes = `{"spec":{"dataVolumeTemplates":[{"spec":{}}],"template":{"spec":{}}}}`
		without     = `{"spec":{"template":{"spec":{}}}}`
	)

	tests := map[string]struct {
		reason  string
		classes []string
		want    Level
		message string
	}{
		"NoClass":     {reason: "nothing needs it", want: Warning, message: "is not installed, but these classes do not need it"},
		"NoVolumes":   {reason: "the machines have no DataVolumes", classes: []string{without}, want: Warning, message: "is not installed, but these classes do not need it"},
		"DataVolumes": {reason: "one class needs it", classes: []string{without, withVolumes}, want: Error, message: "is not installed, and MachineClass c has DataVolumes"},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			in := &scope{}
			for _, vm := range tc.classes {
				in.classes = append(in.classes, classOf(t, vm))
			}

			got := checkCDI(t.Context(), readerOn(t), in)
			require.Len(t, got, 1)
			require.Equal(t, tc.want, got[0].Level, tc.reason)
			require.Equal(t, tc.message, got[0].Message)
		})
	}
}

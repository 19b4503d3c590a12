// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package validate

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// TestSchemas_AgreeWithDecoders validates the inputs that the JSON Schema of MachineClasses is tested with.
func TestSchemas_AgreeWithDecoders(t *testing.T) {
	t.Parallel()

	raw, err := os.ReadFile("../../schema/testdata/inputs.yaml")
	require.NoError(t, err)

	var table struct {
		Inputs map[string][]struct {
			Valid bool            `json:"valid"`
			Input json.RawMessage `json:"input"`
		} `json:"inputs"`
	}
	require.NoError(t, yaml.Unmarshal(raw, &table))
	require.NotEmpty(t, table.Inputs["MachineClass"])

	for _, tc := range table.Inputs["MachineClass"] {
		out, err := run(t, string(tc.Input), "validate", "-f", "-")
		require.Equal(t, tc.Valid, err == nil, "%s: %s", tc.Input, out)
	}
}

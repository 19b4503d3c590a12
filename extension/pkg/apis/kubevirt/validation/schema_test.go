// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
)

// TestSchemas_AgreeWithDecoders validates the inputs that the JSON Schemas of the configs are tested with.
func TestSchemas_AgreeWithDecoders(t *testing.T) {
	t.Parallel()

	raw, err := os.ReadFile("../../../../../schema/testdata/inputs.yaml")
	require.NoError(t, err)

	var table struct {
		Inputs map[string][]struct {
			Valid bool            `json:"valid"`
			Input json.RawMessage `json:"input"`
		} `json:"inputs"`
	}
	require.NoError(t, yaml.Unmarshal(raw, &table))

	path := field.NewPath("providerConfig")

	for kind, validate := range map[string]func(raw *runtime.RawExtension) field.ErrorList{
		"InfrastructureConfig": func(raw *runtime.RawExtension) field.ErrorList {
			config := &api.InfrastructureConfig{}

			return append(api.Decode(raw, path, config), ValidateInfrastructureConfig(config, path)...)
		},
		"ControlPlaneConfig": func(raw *runtime.RawExtension) field.ErrorList {
			return api.Decode(raw, path, &api.ControlPlaneConfig{})
		},
		"WorkerConfig": func(raw *runtime.RawExtension) field.ErrorList {
			return api.Decode(raw, path, &api.WorkerConfig{})
		},
		"CloudProfileConfig": func(raw *runtime.RawExtension) field.ErrorList {
			config := &api.CloudProfileConfig{}

			return append(api.Decode(raw, path, config), ValidateVolumeClasses(config.VolumeClasses, path)...)
		},
	} {
		require.NotEmpty(t, table.Inputs[kind])

		for _, tc := range table.Inputs[kind] {
			errs := validate(&runtime.RawExtension{Raw: tc.Input})
			require.Equal(t, tc.Valid, len(errs) == 0, "%s: %s", tc.Input, errs.ToAggregate())
		}
	}
}

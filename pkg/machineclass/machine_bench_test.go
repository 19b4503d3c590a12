// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package machineclass_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/render"
)

// BenchmarkMachine measures the computation for each machine, from the request to the rendered
// objects.
func BenchmarkMachine(b *testing.B) {
	for _, name := range []string{"minimal", "predecessor", "template-devices", "template-scheduling"} {
		text, err := os.ReadFile("../render/testdata/" + name + ".spec.yaml")
		require.NoError(b, err)
		raw, err := yaml.YAMLToJSON(text)
		require.NoError(b, err)

		r := validRequest()
		r.class.ProviderSpec.Raw = raw

		b.Run(name+"/decode+validate", func(b *testing.B) {
			for b.Loop() {
				_, err := r.decode()
				require.NoError(b, err)
			}
		})

		in, err := r.decode()
		require.NoError(b, err)
		b.Run(name+"/render", func(b *testing.B) {
			for b.Loop() {
				_, err := render.VirtualMachine(in, "machines")
				require.NoError(b, err)
				require.NotEmpty(b, render.Secrets(in, "machines"))
			}
		})
	}
}

// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package machineclass_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1/validation"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/kubeconfig"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/machineclass"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/render"
)

// FuzzDecodeCreateMachine decodes hostile specs and Secrets. A machine that is accepted can be
// rendered, with unchanged user data.
func FuzzDecodeCreateMachine(f *testing.F) {
	specs, err := filepath.Glob("../render/testdata/*.spec.yaml")
	require.NoError(f, err)

	for _, path := range specs {
		text, err := os.ReadFile(path)
		require.NoError(f, err)
		raw, err := yaml.YAMLToJSON(text)
		require.NoError(f, err)
		f.Add(raw, []byte("apiVersion: v1\nkind: Config\n"), []byte("#cloud-config\n"))
	}

	f.Add([]byte(validSpec), []byte("{}"), []byte("\x1f\x8b"))
	f.Add([]byte("null"), []byte(nil), []byte(nil))
	f.Fuzz(func(t *testing.T, spec, config, userData []byte) {
		r := validRequest()
		r.class.ProviderSpec.Raw = spec
		r.secret.Data = map[string][]byte{"kubeconfig": config, "userData": userData}

		_, _, _ = kubeconfig.RESTConfig(config)

		in, err := machineclass.DecodeCreateMachine(r.machine, r.class, r.secret, validation.Options{Template: validation.TemplateAll})
		if err != nil {
			return
		}

		vm, err := render.VirtualMachine(in, "machines")
		require.NoError(t, err, "a valid spec can be rendered")
		require.Equal(t, "m", vm.Name)
		require.True(t, render.Owns(in.Identity(), vm.Labels), "created objects are ours")
		require.Equal(t, userData, render.Secrets(in, "machines")[0].Data["userdata"])
	})
}

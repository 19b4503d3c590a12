package kubevirt_test

import (
	"os"
	"testing"

	"github.com/gardener/machine-controller-manager/pkg/util/provider/driver"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1/validation"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/kubevirt"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi/render"
)

// BenchmarkMachine measures what the driver computes for each machine: from the request to the objects that are created.
func BenchmarkMachine(b *testing.B) {
	for _, name := range []string{"minimal", "predecessor", "template-devices", "template-scheduling"} {
		text, err := os.ReadFile("../spi/render/testdata/" + name + ".spec.yaml")
		require.NoError(b, err)
		raw, err := yaml.YAMLToJSON(text)
		require.NoError(b, err)

		r := validRequest()
		r.class.ProviderSpec.Raw = raw
		req := &driver.CreateMachineRequest{Machine: r.machine, MachineClass: r.class, Secret: r.secret}
		allowed := validation.Options{Template: validation.TemplateSafe}

		b.Run(name+"/decode+validate", func(b *testing.B) {
			for b.Loop() {
				_, err := kubevirt.DecodeCreateMachine(req, allowed)
				require.NoError(b, err)
			}
		})

		in, err := kubevirt.DecodeCreateMachine(req, allowed)
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

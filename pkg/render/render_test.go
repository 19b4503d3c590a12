// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/render"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

var update = flag.Bool("update", false, "write the golden files")

const uid = types.UID("0a1b2c3d-0000-4000-8000-000000000000")

// TestGolden renders each spec of testdata/*.spec.yaml, and compares the
// result with testdata/*.golden.yaml. The integration suite checks that
// the real virt-api accepts the golden files.
func TestGolden(t *testing.T) {
	t.Parallel()

	specs, err := filepath.Glob("testdata/*.spec.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, specs)

	for _, path := range specs {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".spec.yaml"), func(t *testing.T) {
			t.Parallel()

			raw, err := os.ReadFile(path)
			require.NoError(t, err)
			raw, err = yaml.YAMLToJSONStrict(raw)
			require.NoError(t, err)

			in := input(t, raw)

			var got string
			for _, secret := range render.Secrets(in, "machines") {
				got += marshal(t, readable(secret)) + "---\n"
			}

			if in.Spec.UsesGoldenImage() {
				image, err := in.Image().DataVolume("machines")
				require.NoError(t, err)

				got += marshal(t, image) + "---\n"
			}

			got += marshal(t, virtualMachine(t, in))
			golden := strings.Replace(path, ".spec.", ".golden.", 1)

			if *update {
				require.NoError(t, os.WriteFile(golden, []byte(got), 0o600))
			}

			want, err := os.ReadFile(golden)
			require.NoError(t, err)
			require.Equal(t, string(want), got)
		})
	}
}

func input(t *testing.T, raw []byte) *spi.CreateMachineInput {
	t.Helper()

	spec, errs := v1alpha1.Decode(raw, field.NewPath("providerSpec"))
	require.Empty(t, errs)

	return &spi.CreateMachineInput{
		Name:         "pool-z1-5f4d8-abcde",
		UID:          uid,
		Deployment:   "pool-z1",
		WorkerPool:   "pool",
		Architecture: "amd64",
		UserData:     []byte("#cloud-config\n"),
		Spec:         spec,
	}
}

// readable converts a Secret's data to text.
func readable(secret *corev1.Secret) *corev1.Secret {
	secret = secret.DeepCopy()
	secret.StringData = map[string]string{}

	for key, value := range secret.Data {
		secret.StringData[key] = string(value)
	}

	secret.Data = nil

	return secret
}

func virtualMachine(t *testing.T, in *spi.CreateMachineInput) *kubevirtv1.VirtualMachine {
	t.Helper()

	vm, err := render.VirtualMachine(in, "machines")
	require.NoError(t, err)

	return vm
}

func marshal(t *testing.T, object any) string {
	t.Helper()

	text, err := yaml.Marshal(object)
	require.NoError(t, err)

	return string(text)
}

func TestVirtualMachine_CopiesInput(t *testing.T) {
	t.Parallel()

	in := input(t, []byte(`{"tags":{"mcm.gardener.cloud/cluster":"c"},"cpu":{"cores":1},"rootVolume":{"source":{"http":{"url":"a"}}}}`))
	vm := virtualMachine(t, in)
	vm.Labels["x"] = "x"
	vm.Spec.Template.ObjectMeta.Labels["y"] = "y"
	vm.Spec.Template.Spec.Domain.CPU.Cores = 7

	image, err := in.Image().DataVolume("machines")
	require.NoError(t, err)

	image.Spec.Source.HTTP.URL = "b"

	require.Equal(t, map[string]string{v1alpha1.TagCluster: "c"}, in.Spec.Tags)
	require.NotContains(t, vm.Labels, "y")
	require.Equal(t, uint32(1), in.Spec.CPU.Cores)
	require.Equal(t, "a", in.Spec.RootVolume.Source.HTTP.URL)
}

// TestDataVolumeName_Unique gives additional volumes names that could collide with that of the root
// volume.
func TestDataVolumeName_Unique(t *testing.T) {
	t.Parallel()

	in := input(t, []byte(`{"tags":{},"rootVolume":{},"additionalVolumes":[{"name":"root","dataVolume":{}},{"name":"disk","dataVolume":{}}]}`))
	names := map[string]bool{}

	for _, template := range virtualMachine(t, in).Spec.DataVolumeTemplates {
		names[template.Name] = true
	}

	require.Len(t, names, 3)
}

func TestOwns(t *testing.T) {
	t.Parallel()

	id := spi.Identity{Cluster: "c", Role: "node"}
	tests := map[string]struct {
		reason string
		id     spi.Identity
		labels map[string]string
		want   bool
	}{
		"Ours":        {"both tags equal, as on the predecessor's VMs", id, map[string]string{v1alpha1.TagCluster: "c", v1alpha1.TagRole: "node"}, true},
		"OtherShoot":  {"another shoot's", id, map[string]string{v1alpha1.TagCluster: "d", v1alpha1.TagRole: "node"}, false},
		"OtherRole":   {"golden images have no role", id, map[string]string{v1alpha1.TagCluster: "c"}, false},
		"NoLabels":    {"somebody's VM", id, nil, false},
		"NoIdentity":  {"an empty identity owns nothing", spi.Identity{}, nil, false},
		"EmptyValues": {"empty labels match no identity", spi.Identity{}, map[string]string{v1alpha1.TagCluster: "", v1alpha1.TagRole: ""}, false},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, render.Owns(tc.id, tc.labels), tc.reason)
		})
	}
}

func TestObjectName(t *testing.T) {
	t.Parallel()

	require.Equal(t, "m-userdata", render.SecretName("m"))
	require.Equal(t, "m-0a1b2-root-disk", render.DataVolumeName("m", uid, v1alpha1.RootDisk))
	require.NotEqual(t, render.DataVolumeName("m", "1", "root"), render.DataVolumeName("m", "2", "root"), "a left-over volume of the same name is never adopted")

	long := strings.Repeat("a", 62)
	require.NotEqual(t, render.SecretName(long+"b"), render.SecretName(long+"c"), "names that differ at the end only stay different")
	require.NotEqual(t, render.DataVolumeName(long, uid, "a"), render.DataVolumeName(long, uid, "b"), "so do volumes of one machine")
}

func FuzzNames(f *testing.F) {
	f.Add("pool-z1-5f4d8-abcde", "0a1b2c3d-0000-4000-8000-000000000000", "root")
	f.Add(strings.Repeat("a", 63), "", strings.Repeat("b", 57))
	f.Fuzz(func(t *testing.T, machine, uid, volume string) {
		if len(validation.IsDNS1123Label(machine)) > 0 || len(validation.IsDNS1123Label(volume)) > 0 {
			return
		}

		for _, name := range []string{render.SecretName(machine), render.DataVolumeName(machine, types.UID(uid), volume)} {
			require.Empty(t, validation.IsDNS1123Label(name), name)
		}
	})
}

func TestVirtualMachine_LogsConsole(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		reason   string
		log      *bool
		template string
		want     *bool
	}{
		"Default":  {reason: "the provider cluster decides", want: nil},
		"On":       {reason: "the operator wants it", log: new(true), want: new(true)},
		"Off":      {reason: "the operator does not want it", log: new(false), want: new(false)},
		"Template": {reason: "the template overrides the driver's option", log: new(true), template: `"logSerialConsole":false`, want: new(false)},
		"Other":    {reason: "another field of the template does not", log: new(true), template: `"autoattachGraphicsDevice":false`, want: new(true)},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			in := input(t, []byte(`{"tags":{"mcm.gardener.cloud/cluster":"c"},"virtualMachineTemplate":{"spec":{"template":{"spec":{"domain":{"devices":{`+tc.template+`}}}}}}}`))
			in.LogConsole = tc.log
			require.Equal(t, tc.want, virtualMachine(t, in).Spec.Template.Spec.Domain.Devices.LogSerialConsole, tc.reason)
		})
	}
}

// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

// unknownSources are the fields of a DataVolume's source that each KubeVirt does not know in
// dataVolumeTemplates: kubevirt.io/containerized-data-importer-api in KubeVirt's go.mod.
var unknownSources = harness.PerKubeVirt[[]string]{
	"1.6": {"registry.platform", "vddk.extraArgs"},
	"1.7": nil,
	"1.8": nil,
	"1.9": nil,
}

// unknownImageSources are those that each CDI does not know in golden images.
var unknownImageSources = harness.PerCDI[[]string]{
	"1.64": {"http.checksum"},
	"1.65": nil,
}

// unknownFields are the unknown fields of a DataVolume's source in the versions that run.
type unknownFields struct {
	image    []string // of golden images, which CDI refuses
	template []string // of dataVolumeTemplates, which KubeVirt refuses
}

func unknownFieldsHere(t *testing.T) unknownFields {
	t.Helper()

	return unknownFields{image: unknownImageSources.Get(t), template: unknownSources.Get(t)}
}

// usedBy returns the first of these fields that a machine uses; empty if there is none. The image
// comes first, since createVM creates it first.
func (u unknownFields) usedBy(in judged) string {
	if in.image != nil {
		if used := usedSource(&in.image.Spec, u.image); used != "" {
			return used
		}
	}

	for i := range in.vm.Spec.DataVolumeTemplates {
		if used := usedSource(&in.vm.Spec.DataVolumeTemplates[i].Spec, u.template); used != "" {
			return used
		}
	}

	return ""
}

func usedSource(spec *cdiv1beta1.DataVolumeSpec, fields []string) string {
	source, err := runtime.DefaultUnstructuredConverter.ToUnstructured(spec)
	if err != nil {
		return err.Error()
	}

	for _, field := range fields {
		if _, found, _ := unstructured.NestedFieldNoCopy(source, append([]string{"source"}, strings.Split(field, ".")...)...); found {
			return field
		}
	}

	return ""
}

// newerFeature is a feature that the driver knows, but not every KubeVirt or CDI of the lab. The
// last part of its name is the field.
type newerFeature struct {
	feature

	// refusal is a part of the error of each KubeVirt, or of each CDI for a golden image; empty if it
	// accepts the field.
	refusal interface{ Get(t *testing.T) string }
}

const unknown = "unknown field"

// The refusals by version, from KubeVirt's types (staging/src/kubevirt.io/api/core/v1) and its gates
// (pkg/virt-config/featuregate), and from CDI's types (kubevirt.io/containerized-data-importer-api).
var (
	// since17 is the refusal of fields that KubeVirt knows since 1.7.
	since17 = harness.PerKubeVirt[string]{"1.6": unknown, "1.7": "", "1.8": "", "1.9": ""}
	// since18 is the refusal of fields that KubeVirt knows since 1.8.
	since18 = harness.PerKubeVirt[string]{"1.6": unknown, "1.7": unknown, "1.8": "", "1.9": ""}
	// passtRefusal is the refusal of passtBinding, whose gate is Beta; since 1.9, Beta gates are on.
	passtRefusal = harness.PerKubeVirt[string]{"1.6": unknown, "1.7": unknown, "1.8": "PasstBinding feature gate is not enabled", "1.9": ""}
	// sinceCDI165 and sinceCDI166 are the refusals of fields of a golden image that CDI knows since then.
	sinceCDI165 = harness.PerCDI[string]{"1.64": unknown, "1.65": ""}
	sinceCDI166 = harness.PerCDI[string]{"1.64": unknown, "1.65": unknown}
)

var newerFeatures = []newerFeature{
	{
		feature: feature{name: "rebootPolicy", yaml: instance(`domain: {rebootPolicy: Terminate}`)},
		// The gate RebootPolicy is Alpha in 1.8, and Beta since 1.9.
		refusal: harness.PerKubeVirt[string]{"1.6": unknown, "1.7": unknown, "1.8": "RebootPolicy", "1.9": ""},
	},
	{
		feature: feature{name: "memory/reservedOverhead", yaml: `memory: {guest: 2Gi, reservedOverhead: {memLock: Required}}`},
		// The gate ReservedOverheadMemlock is Alpha.
		refusal: harness.PerKubeVirt[string]{
			"1.6": unknown, "1.7": unknown, "1.8": "Reserved overhead memlock feature gate is not enabled", "1.9": "Reserved overhead memlock feature gate is not enabled",
		},
	},
	{
		feature: feature{name: "primary/passtBinding", yaml: `networks: [{pod: {}, passtBinding: {}, model: <virtio|e1000e>}]`},
		refusal: passtRefusal,
	},
	{
		feature: feature{name: "hyperv/direct", yaml: instance(`domain: {features: {hyperv: {vpindex: {}, tlbflush: {direct: {}}}}}`)},
		refusal: since18,
	},
	{
		feature: feature{name: "volume-sparse/discardGranularity", yaml: withDisk("sparse", `blockSize: {custom: {logical: 512, physical: 4096, discardGranularity: 4096}}`)},
		refusal: since17,
	},
	{
		feature: feature{
			name:    "root/import-imageio/insecureSkipVerify",
			without: []string{"golden"}, // CDI knows it.
			yaml:    `{disablePreAllocatedDataVolumes: true, rootVolume: {source: {imageio: {url: "https://ovirt.example.com/api", diskId: "1", secretRef: keys, insecureSkipVerify: true}}, ` + claims + `}}`,
		},
		refusal: since18,
	},
	{
		feature: feature{
			name:    "root/import-http/insecureSkipVerify",
			without: []string{"golden/none"},
			yaml:    `rootVolume: {source: {http: {url: "https://h/i", insecureSkipVerify: true}}, ` + claims + `}`,
		},
		refusal: sinceCDI166,
	},
	{
		feature: feature{
			name:    "root/import-http/serviceAccountName",
			without: []string{"golden/none"},
			yaml:    `rootVolume: {source: {http: {url: "https://h/i"}}, ` + claims + `, serviceAccountName: importer}`,
		},
		refusal: sinceCDI165,
	},
	{
		feature: feature{
			name:    "root/import-vddk/certConfigMap",
			without: []string{"golden/none"},
			yaml:    `rootVolume: {source: {vddk: {url: "https://vcenter.example.com", uuid: u, backingFile: f, thumbprint: t, secretRef: keys, certConfigMap: ca}}, ` + claims + `}`,
		},
		refusal: sinceCDI166,
	},
}

// acceptedFeatures returns the features that the KubeVirt and the CDI of the lab accept.
func acceptedFeatures(t *testing.T) []feature {
	t.Helper()

	accepted := slices.Clone(features)

	for _, newer := range newerFeatures {
		if newer.refusal.Get(t) == "" {
			accepted = append(accepted, newer.feature)
		}
	}

	return accepted
}

// TestNewerFieldsAreRefused checks that a KubeVirt or CDI that does not know a field refuses the
// machine and names the field. If the field were dropped silently, the machine would differ from its
// spec.
func TestNewerFieldsAreRefused(t *testing.T) {
	t.Parallel()

	s := harness.NewShoot(t)

	for i, newer := range newerFeatures {
		t.Run(path.Base(newer.name), func(t *testing.T) {
			t.Parallel()

			first := newer.feature
			// CDI 1.64 would refuse the image before KubeVirt sees the field.
			first.without = append(slices.Clone(first.without), "root/import-checksum")

			spec, _ := generate(t, rand.New(rand.NewPCG(1, uint64(i))), first, features)
			in := inputOf(s, "pool-z1-5f4d8-abcde", encode(t, spec))
			require.Empty(t, in.faults, "the driver knows the field")

			err := createVM(t.Context(), s, in)

			switch refusal := newer.refusal.Get(t); refusal {
			case "":
				require.NoError(t, err)
			case unknown:
				require.ErrorContains(t, err, unknown)
				require.ErrorContains(t, err, path.Base(newer.name))
			default:
				require.ErrorContains(t, err, refusal)
			}
		})
	}
}

// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
)

func TestDecode(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		reason string
		raw    string
		// wantErrs are the fields of the errors.
		wantErrs []string
	}{
		"Minimal": {
			reason: "apiVersion and kind may be absent: the predecessor's objects have none",
			raw:    `{"region":"r","zone":"z","rootVolume":{}}`,
		},
		"Empty":        {reason: "an empty text is not a spec", raw: ``, wantErrs: []string{"providerSpec"}},
		"Null":         {reason: "null is not a spec", raw: ` null `, wantErrs: []string{"providerSpec"}},
		"NotAnObject":  {reason: "a list is not a spec", raw: `[]`, wantErrs: []string{"providerSpec"}},
		"CutOff":       {reason: "the JSON is truncated", raw: `{"region":"r`, wantErrs: []string{"providerSpec"}},
		"Trailing":     {reason: "data after the spec is an error", raw: `{"region":"r"} x`, wantErrs: []string{"providerSpec"}},
		"TooDeep":      {reason: "no type is nested so deeply", raw: strings.Repeat(`{"a":`, 1000) + "1" + strings.Repeat("}", 1000), wantErrs: []string{"providerSpec"}},
		"UnknownField": {reason: "a typo must be reported", raw: `{"regoin":"r"}`, wantErrs: []string{"providerSpec.regoin"}},
		"NestedUnknown": {
			reason:   "KubeVirt's and CDI's types are decoded as strictly",
			raw:      `{"memory":{"gust":"1Gi"},"rootVolume":{"source":{"htpp":{}}}}`,
			wantErrs: []string{"providerSpec.memory.gust", "providerSpec.rootVolume.source.htpp"},
		},
		"SelfDecoding": {
			reason: "KubeVirt's types that decode themselves would ignore unknown fields",
			raw:    `{"virtualMachineTemplate":{"spec":{"template":{"spec":{"evictionStrtegy":"None","domain":{"Cpu":{}},"terminationGracePeriodSeconds":"1"}}}}}`,
			wantErrs: []string{
				"providerSpec.virtualMachineTemplate.spec.template.spec.evictionStrtegy",
				"providerSpec.virtualMachineTemplate.spec.template.spec.domain.Cpu",
				"providerSpec.virtualMachineTemplate.spec.template.spec.terminationGracePeriodSeconds",
			},
		},
		"DuplicateKey": {
			reason:   "one of two values would be lost",
			raw:      `{"zone":"a","zone":"b","networks":[{},{"name":"a","name":"b"}]}`,
			wantErrs: []string{"providerSpec.zone", "providerSpec.networks[1].name"},
		},
		"OtherCase": {reason: "Kubernetes fields have one spelling", raw: `{"Zone":"a"}`, wantErrs: []string{"providerSpec.Zone"}},
		"HugeExponent": {
			reason: "such a quantity takes hours to parse",
			raw:    `{"memory":{"guest":"1e-999999999"},"rootVolume":{"storage":{"resources":{"requests":{"storage":1E9999999}}}}}`,
			wantErrs: []string{
				"providerSpec.memory.guest", "providerSpec.rootVolume.storage.resources.requests[storage]",
			},
		},
		"DisguisedExponent": {
			reason:   "the parser trims all kinds of spaces",
			raw:      "{\"memory\":{\"guest\":\"\u00a01e99999999\"}}",
			wantErrs: []string{"providerSpec.memory.guest"},
		},
		"LongNumber": {
			reason:   "so does a very long number",
			raw:      `{"memory":{"guest":` + strings.Repeat("9", 100_000) + `}}`,
			wantErrs: []string{"providerSpec.memory.guest"},
		},
		"NullInMap": {
			reason:   "an entry of a map must have a value",
			raw:      `{"tags":{"a":null},"resources":{"limits":{"cpu":null}}}`,
			wantErrs: []string{"providerSpec.tags[a]", "providerSpec.resources.limits[cpu]"},
		},
		"ExponentInTag": {reason: "a tag is not a quantity", raw: `{"tags":{"commit":"1e12345"},"rootVolume":{}}`},
		"WrongTypes": {
			reason: "all of them are reported, with the index in lists",
			raw: `{"zone":1,"tags":[],"sshKeys":"k","networks":[{"name":"a"},{"default":"yes"},7],"cpu":{"cores":-1},"memory":{"guest":"8 Gi"},` +
				`"disablePreAllocatedDataVolumes":1,"resources":{"requests":{"cpu":{}}},"virtualMachineTemplate":{"spec":{"running":"x"}}}`,
			wantErrs: []string{
				"providerSpec.zone", "providerSpec.tags", "providerSpec.sshKeys", "providerSpec.networks[1].default", "providerSpec.networks[2]",
				"providerSpec.cpu.cores", "providerSpec.memory.guest", "providerSpec.disablePreAllocatedDataVolumes",
				"providerSpec.resources.requests[cpu]", "providerSpec.virtualMachineTemplate.spec.running",
			},
		},
		"NullFields": {reason: "a field that is null is not set", raw: `{"cpu":null,"networks":null,"region":null,"memory":{"guest":null}}`},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			spec, errs := v1alpha1.Decode([]byte(tc.raw), field.NewPath("providerSpec"))

			var got []string
			for _, err := range errs {
				got = append(got, err.Field)
				require.NotEmpty(t, err.Detail, "every error has a remedy")
			}

			require.ElementsMatch(t, tc.wantErrs, got, tc.reason)

			if len(tc.wantErrs) == 0 {
				require.NotNil(t, spec, tc.reason)
			}
		})
	}
}

func TestDecode_NoObject(t *testing.T) {
	t.Parallel()

	for _, raw := range []string{``, `null`, `[]`, `"x"`, `7`, `{"region":"r`} {
		spec, errs := v1alpha1.Decode([]byte(raw), field.NewPath("providerSpec"))
		require.NotEmpty(t, errs, raw)
		require.Nil(t, spec, "%s: there is nothing to validate", raw)
	}
}

func TestDecode_KeepsValidFields(t *testing.T) {
	t.Parallel()

	spec, errs := v1alpha1.Decode([]byte(`{"region":"r","zone":7,"networks":[{"name":"a","primary":true},{"name":"b"}]}`), field.NewPath("providerSpec"))
	require.Len(t, errs, 2)
	require.Equal(t, "r", spec.Region)
	require.Equal(t, []v1alpha1.Network{{Name: "a"}, {Name: "b"}}, spec.Networks)
}

func TestDecode_CorrectsTypos(t *testing.T) {
	t.Parallel()

	spec, errs := v1alpha1.Decode([]byte(`{"zoen":"a","Region":7,"region":"r"}`), field.NewPath("providerSpec"))
	require.Len(t, errs, 2)
	require.Equal(t, "a", spec.Zone, "the zone is not reported as missing")
	require.Equal(t, "r", spec.Region, "the correct field takes precedence")
}

func TestDecode_BoundsErrors(t *testing.T) {
	t.Parallel()

	var b strings.Builder

	const many = 100_000
	for i := range many {
		fmt.Fprintf(&b, `,"key%d":1`, i)
	}

	_, errs := v1alpha1.Decode([]byte(`{"zone":"a"`+b.String()+`}`), field.NewPath("providerSpec"))
	require.Len(t, errs, 100)
}

func TestDecode_SuggestsField(t *testing.T) {
	t.Parallel()

	for raw, want := range map[string]string{
		`{"zoen":"a"}`:                                         `did you mean "zone"?`,
		`{"Region":"a"}`:                                       `did you mean "region"?`,
		`{"cpu":{"core":1}}`:                                   `did you mean "cores"?`,
		`{"networks":[{"msquerade":{}}]}`:                      `did you mean "masquerade"?`,
		`{"cloudInit":{"userData":"x"}}`:                       "the fields are networkData, type",
		`{"machineType":"big"}`:                                "API reference",
		`{"virtualMachineTemplate":{"metadata":{"name":"x"}}}`: "the fields are annotations, labels",
	} {
		_, errs := v1alpha1.Decode([]byte(raw), field.NewPath("providerSpec"))
		require.Len(t, errs, 1)
		require.Contains(t, errs[0].Detail, want, raw)
	}
}

// TestDecode_ScalarMemoryAndCPU rejects scalar sizes, as other platforms have them, and names the
// expected form.
func TestDecode_ScalarMemoryAndCPU(t *testing.T) {
	t.Parallel()

	const template = `{"virtualMachineTemplate":{"spec":{"template":{"spec":{"domain":{"cpu":"4"}}}}}}`

	for raw, want := range map[string]string{
		`{"memory":4096}`:  "providerSpec.memory: Invalid value: must be an object; write memory: {guest: 4Gi}",
		`{"memory":"4Gi"}`: "providerSpec.memory: Invalid value: must be an object; write memory: {guest: 4Gi}",
		`{"cpu":4}`:        "providerSpec.cpu: Invalid value: must be an object; write cpu: {cores: 4}",
		template: "providerSpec.virtualMachineTemplate.spec.template.spec.domain.cpu: Invalid value: must be an object; " +
			"write cpu: {cores: 4}",
	} {
		_, errs := v1alpha1.Decode([]byte(raw), field.NewPath("providerSpec"))
		require.Len(t, errs, 1)
		require.Equal(t, want, errs[0].Error(), raw)
	}
}

func TestDecodeTagsIsLenient(t *testing.T) {
	t.Parallel()

	require.Equal(t, map[string]string{"a": "b"}, v1alpha1.DecodeTags([]byte(`{"tags":{"a":"b"},"nonsense":[],"zone":7}`)))
	require.Equal(t, map[string]string{"a": "b"}, v1alpha1.DecodeTags([]byte(`{"tags":{"a":"b","x":1}}`)))
	require.Empty(t, v1alpha1.DecodeTags([]byte(`null`)))
	require.Empty(t, v1alpha1.DecodeTags([]byte(`{"tags":[]}`)))
	require.Empty(t, v1alpha1.DecodeTags(nil))
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"region":"r","zone":"z","tags":{"a":"b"},"memory":{"guest":"1Gi"}}`))
	f.Add([]byte(`null`))
	f.Add([]byte(`{"memory":{"guest":1e999}}`))
	f.Add([]byte(`{"memory":{"guest":"1e-999999999"}}`))
	f.Add([]byte("{\"memory\":{\"guest\":\"\u00a01e99999999\"}}"))
	f.Add([]byte(`{"virtualMachineTemplate":{"spec":{"template":{"spec":{"domain":{"cpu":{"features":[{"name":"a"}]}}}}}}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		spec, errs := v1alpha1.Decode(raw, field.NewPath("providerSpec"))
		require.False(t, spec == nil && len(errs) == 0, "either a spec or an error")

		for _, err := range errs {
			require.NotEqual(t, field.ErrorTypeInternal, err.Type, "pruned JSON can be decoded")
		}

		v1alpha1.DecodeTags(raw)
	})
}

package v1alpha1_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
)

func TestDecode(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		reason string
		raw    string
		// wantErrs are the field paths that the error must name; none: no error.
		wantErrs []string
	}{
		"Minimal": {
			reason: "apiVersion and kind may be absent: the predecessor's objects have none",
			raw:    `{"region":"r","zone":"z","rootVolume":{}}`,
		},
		"Empty":        {reason: "an empty spec is no spec", raw: ``, wantErrs: []string{"providerSpec"}},
		"Null":         {reason: "null is no spec", raw: ` null `, wantErrs: []string{"providerSpec"}},
		"NotAnObject":  {reason: "a list is no spec", raw: `[]`, wantErrs: []string{"providerSpec"}},
		"Trailing":     {reason: "bytes behind the spec are a mistake", raw: `{"region":"r"} x`, wantErrs: []string{"providerSpec"}},
		"UnknownField": {reason: "a typo must not be ignored", raw: `{"regoin":"r"}`, wantErrs: []string{"regoin"}},
		"NestedUnknown": {
			reason:   "KubeVirt's and CDI's own types are read as strictly",
			raw:      `{"memory":{"gust":"1Gi"},"rootVolume":{"source":{"htpp":{}}}}`,
			wantErrs: []string{"memory.gust", "rootVolume.source.htpp"},
		},
		"DuplicateKey": {reason: "one of two values would be lost", raw: `{"zone":"a","zone":"b"}`, wantErrs: []string{"zone"}},
		"OtherCase":    {reason: "Kubernetes fields have one spelling", raw: `{"Zone":"a"}`, wantErrs: []string{"Zone"}},
		"HugeExponent": {
			reason:   "such a quantity takes hours to parse",
			raw:      `{"memory":{"guest":"1e-999999999"},"rootVolume":{"storage":{"resources":{"requests":{"storage":1E9999999}}}}}`,
			wantErrs: []string{"memory.guest", "rootVolume.storage.resources.requests.storage"},
		},
		"ExponentInTag": {reason: "a tag is no quantity", raw: `{"tags":{"commit":"1e12345"},"rootVolume":{}}`},
		"WrongType":     {reason: "a number is no zone", raw: `{"zone":1}`, wantErrs: []string{"zone"}},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			spec, err := v1alpha1.Decode([]byte(tc.raw))
			if len(tc.wantErrs) == 0 {
				require.NoError(t, err, tc.reason)
				require.NotNil(t, spec, tc.reason)

				return
			}

			require.Error(t, err, tc.reason)

			for _, path := range tc.wantErrs {
				require.ErrorContains(t, err, path, tc.reason)
			}
		})
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
	f.Fuzz(func(t *testing.T, raw []byte) {
		spec, err := v1alpha1.Decode(raw)
		require.Equal(t, err == nil, spec != nil, "either a spec or an error")
		v1alpha1.DecodeTags(raw)
	})
}

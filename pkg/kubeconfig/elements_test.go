package kubeconfig

import (
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

func TestElements(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		reason string
		body   string
		ends   bool
	}{
		"Enough":     {"as many as there may be", `[0` + strings.Repeat(",0", maxElements-1) + `]`, false},
		"TooMany":    {"one more", `[0` + strings.Repeat(",0", maxElements) + `]`, true},
		"Nothing":    {"they may be nothing", `{"items":[null` + strings.Repeat(",null", maxElements) + `]}`, true},
		"Everywhere": {"all arrays count", `{"a":[` + strings.Repeat(`{"b":[]},`, maxElements/2) + `{}]}`, true},
		"Nested":     {"arrays of arrays", strings.Repeat("[", maxElements+1), true},
		"Fields":     {"managedFields have thousands of them", `{"a":{` + strings.Repeat(`"f:x":{},`, 2*maxElements) + `"f:y":{}}}`, false},
		"Text":       {"a text is one element", `["` + strings.Repeat(`,\",\\`, maxElements) + `"]`, false},
		"AfterText":  {"it ends at its quote", `["\\"` + strings.Repeat(`,""`, maxElements) + `]`, true},
		"Events":     {"each event of a watch counts for itself", strings.Repeat(`{"object":{"a":[1,2,3]}}`+"\n", maxElements), false},
		"Unopened":   {"what is no JSON is the decoder's to refuse", `]}],` + strings.Repeat(",", maxElements), false},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			body := io.NopCloser(iotest.HalfReader(strings.NewReader(tc.body)))
			read, err := io.ReadAll(&elements{ReadCloser: body})

			if tc.ends {
				require.ErrorContains(t, err, "too large", tc.reason)

				return
			}

			require.NoError(t, err, tc.reason)
			require.Equal(t, tc.body, string(read), "nothing is changed")
		})
	}
}

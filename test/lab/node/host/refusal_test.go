// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRefusal(t *testing.T) {
	t.Parallel()

	missing := errors.New("it lacks gcc")

	for name, test := range map[string]struct {
		reason  string
		missing error
		demand  string
		code    int
		want    []string // empty: the tests run
	}{
		"able":           {reason: "nothing is missing"},
		"able, demanded": {reason: "nothing is missing", demand: "required"},
		"skipped":        {reason: "a skipped proof must not look like a passed one", missing: missing, want: []string{"it lacks gcc", "SKIPPED", "nothing is proven"}},
		"another value":  {reason: "a misspelt demand must not skip", missing: missing, demand: "requierd", code: 1, want: []string{"LAB_NODES=requierd"}},
		"demanded":       {reason: "workflows fail instead of skipping", missing: missing, demand: "required", code: 1, want: []string{"it lacks gcc", "FAILED"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			code, text := Refusal(test.missing, test.demand)
			require.Equal(t, test.code, code, test.reason)
			require.Equal(t, len(test.want) == 0, text == "", test.reason)

			for _, part := range test.want {
				require.Contains(t, text, part, test.reason)
			}
		})
	}
}

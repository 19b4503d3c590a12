// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

// refusal returns an exit code and the reason why no test runs on this machine, or "". missing is what this machine
// lacks, and demand is the value of LAB_NODES.
func refusal(missing error, demand string) (code int, text string) {
	const required = "required"

	switch {
	case demand != "" && demand != required:
		return 1, "FAILED: LAB_NODES=" + demand + " is not a value of it: set LAB_NODES=required, or leave it empty."
	case missing == nil:
		return 0, ""
	case demand == required:
		return 1, missing.Error() + "\nFAILED: LAB_NODES=required, and no node was started."
	default:
		return 0, missing.Error() + "\nSKIPPED: no node was started, and nothing is proven. LAB_NODES=required makes this a failure."
	}
}

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

			code, text := refusal(test.missing, test.demand)
			require.Equal(t, test.code, code, test.reason)
			require.Equal(t, len(test.want) == 0, text == "", test.reason)

			for _, part := range test.want {
				require.Contains(t, text, part, test.reason)
			}
		})
	}
}

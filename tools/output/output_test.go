// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package output

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

func TestFlags_Print(t *testing.T) {
	t.Parallel()

	result := map[string]any{"errors": 2}

	tests := map[string]struct {
		reason string
		args   []string
		want   string
		err    string
	}{
		"Text":          {reason: "the default", want: "2 errors"},
		"JSON":          {reason: "for scripts", args: []string{"-o", "json"}, want: "{\n    \"errors\": 2\n}\n"},
		"YAML":          {reason: "for scripts", args: []string{"-o=yaml"}, want: "errors: 2\n"},
		"JSONPath":      {reason: "as kubectl", args: []string{"-o=jsonpath={.errors}"}, want: "2"},
		"Template":      {reason: "as kubectl", args: []string{"--template={{.errors}}"}, want: "2"},
		"Unknown":       {reason: "the formats are named", args: []string{"-o=xml"}, err: "--output must be one of text, yaml, json, go-template, jsonpath"},
		"Name":          {reason: "a report is no object", args: []string{"-o=name"}, err: "--output must be one of"},
		"WrongTemplate": {reason: "before the command runs", args: []string{"-o=jsonpath={"}, err: "unclosed action"},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			f := NewFlags(Text, false)
			cmd := &cobra.Command{}
			f.AddTo(cmd)
			require.NoError(t, cmd.ParseFlags(tc.args))

			if tc.err != "" {
				require.ErrorContains(t, f.Validate(), tc.err, tc.reason)

				return
			}

			var out strings.Builder

			require.NoError(t, f.Validate())
			require.NoError(t, f.Print(&out, result, Page{Template: `{{count .errors "error"}}`}))
			require.Equal(t, tc.want, out.String(), tc.reason)
		})
	}
}

func TestSanitize(t *testing.T) {
	t.Parallel()

	const bad = "a\x1b[2J\nb"

	type part struct {
		Text string
		At   time.Time
	}

	now := time.Now()
	result := struct {
		Kind    string
		Parts   []part
		Pointer *part
		None    *part
		Err     error
		private string
	}{Kind: bad, Parts: []part{{Text: bad, At: now}}, Pointer: &part{Text: bad}, Err: errors.New("kept"), private: bad}

	Sanitize(&result)
	require.Equal(t, "a [2J b", result.Kind)
	require.Equal(t, []part{{Text: "a [2J b", At: now}}, result.Parts)
	require.Equal(t, "a [2J b", result.Pointer.Text)
	require.Nil(t, result.None)
	require.EqualError(t, result.Err, "kept")
	require.Equal(t, bad, result.private)
}

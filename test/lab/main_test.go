// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"go/build"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestChoose(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		reason  string
		args    string
		want    program
		problem string
	}{
		"none":             {reason: "a command is required", problem: "no command given"},
		"command":          {reason: "the manager reads the flags", args: "up --name x", want: manager},
		"scenario":         {reason: "a scenario is a program", args: "scenario demo", want: scenarios["demo"]},
		"other module":     {reason: "Gardener's scenarios are in the extension", args: "scenario landscape x", want: scenarios["landscape"]},
		"no scenario":      {reason: "the name is required", args: "scenario", problem: "the scenarios are demo, demo-shoot, landscape"},
		"unknown scenario": {reason: "the error names it", args: "scenario x", problem: `no scenario "x"; the scenarios are demo,`},
		"arguments":        {reason: "the demo would start without them", args: "scenario demo --bogus", problem: `unexpected argument "--bogus"`},
		"unknown command":  {reason: "the error names it", args: "start", problem: `no command "start"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := choose(strings.Fields(test.args))
			if test.problem != "" {
				require.ErrorContains(t, err, test.problem, test.reason)
				return
			}
			require.NoError(t, err)
			require.Equal(t, test.want, got, test.reason)
		})
	}
}

func TestCommand_Help(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"--help"}, {"scenario", "--help"}} {
		var out, failed bytes.Buffer
		require.NoError(t, command(t.Context(), args, &out, &failed))
		for name := range scenarios {
			require.Contains(t, failed.String(), name)
		}
	}
}

// TestCommand_ImportsAlmostNothing requires that the command is compiled within seconds.
func TestCommand_ImportsAlmostNothing(t *testing.T) {
	t.Parallel()
	const module = "github.com/gardener/machine-controller-manager-provider-kubevirt/"
	for _, folder := range []string{".", "compile", "screen"} {
		found, err := build.ImportDir(folder, 0)
		require.NoError(t, err)
		for _, path := range found.Imports {
			first, _, _ := strings.Cut(path, "/")
			allowed := !strings.Contains(first, ".") || path == "golang.org/x/term" ||
				path == module+"test/lab/screen" || path == module+"test/lab/compile"
			require.True(t, allowed, "%s imports %s", folder, path)
		}
	}
}

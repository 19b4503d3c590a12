// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFolderOf(t *testing.T) {
	t.Chdir("../..")

	for name, want := range map[string]folder{
		"pkg/images/ensure.go":                                  {module: ".", path: "pkg/images"},
		"api/v1alpha1/tree.go":                                  {module: ".", path: "api/v1alpha1"},
		"extension/pkg/controller/infrastructure/namespace.go":  {module: "extension", path: "pkg/controller/infrastructure"},
		"extension/pkg/controller/infrastructure/check_test.go": {module: "extension", path: "pkg/controller/infrastructure"},
	} {
		f, found := folderOf(name)
		require.True(t, found, name)
		require.Equal(t, want, f)
	}

	for _, name := range []string{"cmd/mcm-kubevirt/main.go", "pkg/removed/removed.go", "test/mutation/main.go"} {
		_, found := folderOf(name)
		require.False(t, found, name)
	}
}

// TestReport counts the mutants of a file: only survivors that are not accepted count as such.
func TestReport(t *testing.T) {
	t.Parallel()

	file := filepath.Join(t.TempDir(), "a.go")
	require.NoError(t, os.WriteFile(file, []byte("package a\n\n\tif a < b {\n\tif a < c {\n"), 0o600))

	var out strings.Builder

	counted := report(&out, folder{path: "pkg/a"}, []mutant{
		{file: file, Type: "CONDITIONALS_BOUNDARY", Status: "KILLED", Line: 3},
		{file: file, Type: "CONDITIONALS_NEGATION", Status: "TIMED OUT", Line: 3},
		{file: file, Type: "CONDITIONALS_BOUNDARY", Status: "LIVED", Line: 4},
		{file: file, Type: "CONDITIONALS_NEGATION", Status: "LIVED", Line: 4},
		{file: file, Type: "ARITHMETIC_BASE", Status: "NOT COVERED", Line: 4},
	}, []survivor{{File: file, Line: "if a < c {", Type: "CONDITIONALS_BOUNDARY", Reason: "the result is the same"}})

	require.Equal(t, &count{killed: 2, survived: 1, accepted: 1, uncovered: 1}, counted)
	require.Contains(t, out.String(), file+":4: CONDITIONALS_NEGATION: if a < c {\n")
	require.NotContains(t, out.String(), "CONDITIONALS_BOUNDARY")
	require.InDelta(t, 2.0/3, counted.killedPart(), 0.001)
}

// TestSurvivors requires a reason for each accepted survivor, and that its line still exists.
func TestSurvivors(t *testing.T) {
	t.Chdir("../..")

	accepted, err := readSurvivors("test/mutation/survivors.yaml")
	require.NoError(t, err)

	for _, s := range accepted {
		content, err := os.ReadFile(s.File)
		require.NoError(t, err)
		require.Contains(t, string(content), s.Line, "remove the survivor of %s", s.File)
		require.NotEmpty(t, s.Reason, s.Line)
	}
}

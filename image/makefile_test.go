// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMakefile_DisablesTestCache requires every command that runs tests to bypass Go's cache of test
// results. The cache ignores files outside the module of a test, such as the workflows and the
// Makefile that the tests of this module read.
func TestMakefile_DisablesTestCache(t *testing.T) {
	t.Parallel()

	makefile := strings.ReplaceAll(read(t, "../Makefile"), "$(GOTEST)", "go test -count=1")
	commands := regexp.MustCompile(`go test .*`).FindAllString(makefile, -1)
	require.NotEmpty(t, commands)

	for _, command := range commands {
		if strings.HasPrefix(command, "go test -list ") {
			continue // It runs no tests.
		}

		require.Regexp(t, `-count=1\b`, command)
	}

	require.Contains(t, read(t, "../test/integration/main.go"), `"test", "-count=1"`, "the command that runs the integration tests")
}

// TestMakefile_TestsEveryModule requires the Makefile to test, tidy, lint and format every Go module of
// the repository that has tests.
func TestMakefile_TestsEveryModule(t *testing.T) {
	t.Parallel()

	modules, tests := filesOfModules(t)
	tested := map[string]bool{}

	for _, test := range tests {
		tested[moduleOf(modules, test)] = true
	}

	require.Contains(t, tested, ".")
	require.Contains(t, tested, "image")
	require.Contains(t, tested, "test/integration/provider")
	delete(tested, ".") // The Makefile's commands without a folder.

	makefile := read(t, "../Makefile")
	for module := range tested {
		for _, command := range []string{
			"$(GOTEST)[^\n]* ./...[^\n]*", "go mod tidy", "$(GOLANGCI_LINT) run[^\n]* ./...", "$(GOLANGCI_LINT) fmt[^\n]* ./...",
		} {
			require.Regexp(t, "\n\tcd "+module+" && "+strings.NewReplacer("$", `\$`, "(", `\(`, ")", `\)`, ".", `\.`).Replace(command)+"\n", makefile)
		}
	}
}

// filesOfModules returns the folders with a go.mod, and the test
// files, relative to the root of the repository.
func filesOfModules(t *testing.T) (modules, tests []string) {
	t.Helper()

	require.NoError(t, filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}

		if name := entry.Name(); entry.IsDir() && path != ".." && strings.HasPrefix(name, ".") {
			return filepath.SkipDir
		}

		relative, err := filepath.Rel("..", path)
		if err != nil {
			return err
		}

		switch {
		case entry.Name() == "go.mod":
			modules = append(modules, filepath.Dir(relative))
		case strings.HasSuffix(path, "_test.go"):
			tests = append(tests, relative)
		}

		return nil
	}))

	return modules, tests
}

// moduleOf returns the innermost module that contains a file.
func moduleOf(modules []string, file string) string {
	innermost := "."

	for _, module := range modules {
		if strings.HasPrefix(file, module+"/") && len(module) > len(innermost) {
			innermost = module
		}
	}

	return innermost
}

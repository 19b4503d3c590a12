// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package compile

import (
	"debug/buildinfo"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestBuild_UsesFlags requires the settings that all programs share, whatever those of the user are.
func TestBuild_UsesFlags(t *testing.T) { //nolint:paralleltest // sets environment variables
	t.Setenv("CGO_ENABLED", "1")
	root := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(root, "go.mod"), []byte("module x\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(root, "main.go"), []byte("package main\n\nfunc main() {}\n"), 0o600))
	require.NoError(t, Build(t.Context(), io.Discard, Program{Name: "x", Root: root, Packages: ".", Output: "bin/x"}))
	info, err := buildinfo.ReadFile(filepath.Join(root, "bin", "x"))
	require.NoError(t, err)
	built := map[string]string{}
	for _, setting := range info.Settings {
		built[setting.Key] = setting.Value
	}
	require.Subset(t, built, map[string]string{"CGO_ENABLED": "0", "-trimpath": "true", "-gcflags": "all=-dwarf=false"})
}

// TestFlags_InMakefile requires the Makefile to build with the same settings: with others, its programs share no compiled
// packages with those of Build.
func TestFlags_InMakefile(t *testing.T) {
	t.Parallel()
	makefile, err := os.ReadFile("../../../Makefile")
	require.NoError(t, err)
	command := regexp.MustCompile(`(?m)^BUILD +:= (.*)$`).FindStringSubmatch(string(makefile))
	require.NotNil(t, command, "the variable BUILD")
	require.Subset(t, strings.Fields(command[1]), append(Flags(), "CGO_ENABLED=0"))
	require.NotContains(t, string(makefile), "go run ./test/lab ", "$(LAB) is the command lab with these flags")
}

// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

const module = "github.com/gardener/machine-controller-manager-provider-kubevirt"

// layoutRule is a rule of depguard, as far as it restricts imports of this repository's packages.
type layoutRule struct {
	Files []string `yaml:"files"`
	Allow []string `yaml:"allow"`
	Deny  []struct {
		Package string `yaml:"pkg"`
	} `yaml:"deny"`
}

// denies reports whether the rule denies a package.
func (r *layoutRule) denies(name string) bool {
	for _, denied := range r.Deny {
		if denied.Package == name {
			return true
		}
	}

	return false
}

// TestLayout_EveryPackageHasARule requires that a rule of the linter restricts the imports of every
// package, to packages that exist. The rule for all programs says only which packages exist.
func TestLayout_EveryPackageHasARule(t *testing.T) {
	t.Parallel()

	rules := layoutRules(t)
	folders := packageFolders(t)
	require.Greater(t, len(folders), 40)

	for name, rule := range rules {
		for _, allowed := range rule.Allow {
			folder := strings.TrimPrefix(strings.TrimSuffix(allowed, "$"), module)
			if folder != allowed {
				require.DirExists(t, filepath.Join(root, folder), "rule %s allows a package that does not exist", name)
			}
		}
	}

	delete(rules, "programs")

	for _, folder := range folders {
		require.True(t, restricted(rules, folder), "no rule of depguard in .golangci.yml restricts the imports of %s", folder)
	}
}

// layoutRules returns the rules of depguard that deny all packages of this repository, except those that they allow.
func layoutRules(t *testing.T) map[string]layoutRule {
	t.Helper()

	content, err := os.ReadFile(filepath.Join(root, ".golangci.yml"))
	require.NoError(t, err)

	var config struct {
		Linters struct {
			Settings struct {
				Depguard struct {
					Rules map[string]layoutRule `yaml:"rules"`
				} `yaml:"depguard"`
			} `yaml:"settings"`
		} `yaml:"linters"`
	}
	require.NoError(t, yaml.Unmarshal(content, &config))

	rules := config.Linters.Settings.Depguard.Rules
	maps.DeleteFunc(rules, func(_ string, rule layoutRule) bool { return !rule.denies(module) })

	return rules
}

// packageFolders returns the folders of all packages of the driver and the extension, except those of tests.
func packageFolders(t *testing.T) []string {
	t.Helper()

	var folders []string

	require.NoError(t, fs.WalkDir(os.DirFS(root), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}

		top := strings.Split(strings.TrimPrefix(path, "extension/"), "/")[0]
		if entry.IsDir() && (slices.Contains([]string{"bin", "image", "schema", "test"}, top) || path != "." && strings.HasPrefix(entry.Name(), ".")) {
			return fs.SkipDir
		}

		if strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
			folders = append(folders, filepath.Dir(path))
		}

		return nil
	}))

	return slices.Compact(folders)
}

// restricted reports whether the files of a rule contain those in the folder.
func restricted(rules map[string]layoutRule, folder string) bool {
	for _, rule := range rules {
		for _, pattern := range rule.Files {
			for _, pattern := range alternatives(strings.TrimPrefix(pattern, "${config-path}/")) {
				prefix, deep := strings.CutSuffix(pattern, "/**")
				if filepath.Dir(pattern) == folder || deep && strings.HasPrefix(folder+"/", prefix+"/") {
					return true
				}
			}
		}
	}

	return false
}

// alternatives returns the patterns that a pattern with {a,b} stands for.
func alternatives(pattern string) []string {
	before, rest, ok := strings.Cut(pattern, "{")
	if !ok {
		return []string{pattern}
	}

	choice, after, _ := strings.Cut(rest, "}")

	var patterns []string
	for element := range strings.SplitSeq(choice, ",") {
		patterns = append(patterns, before+element+after)
	}

	return patterns
}

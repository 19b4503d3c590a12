package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/kubernetes"
)

const repository = "../../../../"

func readShipped(t *testing.T, file string) []byte {
	t.Helper()

	content, err := os.ReadFile(filepath.Join(repository, file))
	require.NoError(t, err)

	return content
}

// copyInputs copies the types and go.mod into a temporary repository with the given page.
func copyInputs(t *testing.T, page []byte) (folder string) {
	t.Helper()

	folder = t.TempDir()

	require.NoError(t, os.CopyFS(filepath.Join(folder, "api/v1alpha1"), os.DirFS(repository+"api/v1alpha1")))
	require.NoError(t, os.Remove(filepath.Join(folder, schemaFile)))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "go.mod"), readShipped(t, "go.mod"), 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(folder, filepath.Dir(pageFile)), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(folder, pageFile), page, 0o600))

	return folder
}

func TestShippedFilesAreUpToDate(t *testing.T) {
	t.Parallel()

	folder := copyInputs(t, readShipped(t, pageFile))
	require.NoError(t, generate(folder))

	for _, file := range []string{schemaFile, pageFile} {
		want, err := os.ReadFile(filepath.Join(folder, file))
		require.NoError(t, err)
		require.True(t, bytes.Equal(want, readShipped(t, file)), "%s: run `make generate`", file) // Equal would print both.
	}
}

func TestGenerateKeepsTheRestOfThePage(t *testing.T) {
	t.Parallel()

	folder := copyInputs(t, []byte("before\n"+beginMarker+"old\n"+endMarker+"after\n"))
	require.NoError(t, generate(folder))

	page, err := os.ReadFile(filepath.Join(folder, pageFile))
	require.NoError(t, err)
	require.Regexp(t, `(?s)^before\n<!-- begin.*\n### ProviderSpec\n.*end: generated -->\nafter\n$`, string(page))
	require.NotContains(t, string(page), "old\n")

	require.ErrorContains(t, generate(copyInputs(t, []byte("no markers"))), "begin: generated")
}

// TestEveryFieldIsDescribed visits the Go types independently, and searches each field in the
// schema and on the page.
func TestEveryFieldIsDescribed(t *testing.T) {
	t.Parallel()

	root, page := readSchema(t), readShipped(t, pageFile)
	fields := 0

	var walk func(kind reflect.Type)

	walk = func(kind reflect.Type) {
		for kind.Kind() == reflect.Pointer || kind.Kind() == reflect.Slice {
			kind = kind.Elem()
		}

		if kind.Kind() != reflect.Struct || kind.PkgPath() != rootType.PkgPath() {
			return
		}

		_, section, found := strings.Cut(string(page), "\n### "+kind.Name()+"\n")
		require.True(t, found, kind.Name())
		section, _, _ = strings.Cut(section, "\n### ")

		for _, f := range reflect.VisibleFields(kind) {
			if f.Anonymous || !f.IsExported() {
				continue
			}

			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			property, ok := object(root.of(kind.Name())["properties"])[name]
			require.True(t, ok, "%s.%s is not in the schema", kind, name)
			require.NotEmpty(t, object(property)["description"], "%s.%s has no comment", kind, name)
			require.Contains(t, section, "\n| `"+name+"` | ")

			fields++

			walk(f.Type)
		}
	}
	walk(rootType)

	require.Greater(t, fields, 60)
}

// TestDecoderAcceptsEveryFieldOfTheSchema decodes a spec with all fields that an editor would
// propose.
func TestDecoderAcceptsEveryFieldOfTheSchema(t *testing.T) {
	t.Parallel()

	root := readSchema(t)
	raw, err := json.Marshal(root.sample(t, root.schema))
	require.NoError(t, err)

	_, faults := v1alpha1.Decode(raw, field.NewPath("providerSpec"))
	require.Empty(t, faults)
	require.Empty(t, root.faults(t, root.schema, reread(t, raw), "sample"))
	require.Greater(t, len(raw), 10_000)
}

// TestPageShowsTheMinimalClass compares the example on the page with the manifest, which is tested.
func TestPageShowsTheMinimalClass(t *testing.T) {
	t.Parallel()

	page := readShipped(t, pageFile)
	manifest, err := kubernetes.Manifests.ReadFile("machineclass/minimal.yaml")
	require.NoError(t, err)

	_, example, found := strings.Cut(string(page), "```yaml\n")
	require.True(t, found)
	example, _, _ = strings.Cut(example, "```\n")
	require.Contains(t, string(manifest), example+"---\n")
}

// TestPageLinksExist follows the page's links to files and headings.
func TestPageLinksExist(t *testing.T) {
	t.Parallel()

	page := readShipped(t, pageFile)

	headings := map[string]bool{}
	for _, heading := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(string(page), -1) {
		anchor := regexp.MustCompile(`[^a-z0-9 -]`).ReplaceAllString(strings.ToLower(heading[1]), "")
		headings[strings.ReplaceAll(anchor, " ", "-")] = true
	}

	links := regexp.MustCompile(`\]\(([^)]+)\)`).FindAllStringSubmatch(string(page), -1)
	require.NotEmpty(t, links)

	for _, link := range links {
		target, anchor, _ := strings.Cut(link[1], "#")

		switch {
		case strings.HasPrefix(target, "https://"):
		case target == "":
			require.True(t, headings[anchor], "no heading #%s", anchor)
		default:
			require.FileExists(t, filepath.Join(repository, "docs", target))
		}
	}
}

package main

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestActionsArePinned requires the workflows to pin every action to a full version. An
// action may be a folder of its repository, such as actions/cache/restore. Actionlint checks
// the rest of the workflows, in make lint.
func TestActionsArePinned(t *testing.T) {
	t.Parallel()

	workflows, err := filepath.Glob("../.github/workflows/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, workflows)

	for _, workflow := range workflows {
		text := read(t, workflow)
		require.Contains(t, text, "\npermissions:\n  contents: read\n", workflow)

		for _, uses := range regexp.MustCompile(`uses: (\S+)`).FindAllStringSubmatch(text, -1) {
			if strings.HasPrefix(uses[1], "./") {
				continue
			}

			require.Regexp(t, `^(actions|docker)/[a-z-]+(/[a-z-]+)?@v\d+\.\d+\.\d+$`, uses[1], workflow)
		}
	}
}

// TestReleaseUsesTheDockerfile checks that the release workflow matches the Dockerfile: the build
// arguments, and how it reads the compiler version.
func TestReleaseUsesTheDockerfile(t *testing.T) {
	t.Parallel()

	release := read(t, "../.github/workflows/release.yaml")

	for _, argument := range []string{"VERSION", "REVISION", "CREATED"} {
		require.Regexp(t, `\n {12}`+argument+`=\$\{\{ \S+ \}\}\n`, release)
	}

	compiler := regexp.MustCompile(`sed -n 's/(\S.*)/\\1/p' Dockerfile`).FindStringSubmatch(release)
	require.NotNil(t, compiler)

	expression := strings.NewReplacer(`\(`, "(", `\)`, ")").Replace(compiler[1])
	require.Len(t, regexp.MustCompile("(?m)"+expression).FindAllString(read(t, "../Dockerfile"), -1), 1)
}

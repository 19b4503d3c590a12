// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestWorkflows_PinActions requires the workflows to pin every action to a full version. An
// action may be a folder of its repository, such as actions/cache/restore. Actionlint checks
// the rest of the workflows, in make lint.
func TestWorkflows_PinActions(t *testing.T) {
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

// TestWorkflows_ReleasePushesCheckedImage requires the release workflow to push the layout that `make image`
// writes, and to build no other image.
func TestWorkflows_ReleasePushesCheckedImage(t *testing.T) {
	t.Parallel()

	release := read(t, "../.github/workflows/release.yaml")
	require.Contains(t, release, "run: make image\n")
	require.Contains(t, release, "cp bin/image*.spdx.json bin/release/\n")
	require.Contains(t, release, "make --silent push-image IMAGE=")
	require.Contains(t, release, `push-image LAYOUT="bin/image-${program%%:*}" IMAGE="$IMAGE/${program#*:}:$GITHUB_REF_NAME"`)
	require.Contains(t, release, " extension:gardener-extension-provider-kubevirt admission:gardener-extension-admission-kubevirt;")
	require.NotRegexp(t, `docker (build|buildx)|docker/build`, release)
}

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

			require.Regexp(t, `^(actions|docker|sigstore)/[a-z-]+(/[a-z-]+)?@(v\d+\.\d+\.\d+|[0-9a-f]{40})$`, uses[1], workflow)
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
	require.Contains(t, release, "pushed=$(make --silent push-image IMAGE=", "a failed push must fail the step")
	require.Contains(t, release, `push-image LAYOUT="bin/image-${program%%:*}" IMAGE="$IMAGE/${program#*:}:$GITHUB_REF_NAME"`)
	require.Contains(t, release, " extension:gardener-extension-provider-kubevirt admission:gardener-extension-admission-kubevirt;")
	require.NotRegexp(t, `docker (build|buildx)|docker/build`, release)
}

// TestWorkflows_ReleaseSignsInOwnJob requires that the job that can sign runs no code of the repository, and that no other
// job can sign or create the release.
func TestWorkflows_ReleaseSignsInOwnJob(t *testing.T) {
	t.Parallel()

	_, text, found := strings.Cut(read(t, "../.github/workflows/release.yaml"), "\njobs:\n")
	require.True(t, found)

	heads := regexp.MustCompile(`(?m)^  ([a-z]+):$`).FindAllStringSubmatchIndex(text, -1)
	require.Len(t, heads, 6)

	for i, head := range heads {
		end := len(text)
		if i+1 < len(heads) {
			end = heads[i+1][0]
		}

		name := text[head[2]:head[3]]
		job := text[head[1]:end]

		require.Equal(t, name == "sign", strings.Contains(job, "id-token: write") && strings.Contains(job, "attestations: write"), name)
		require.Equal(t, name == "release", strings.Contains(job, "contents: write"), name)

		if name == "sign" || name == "release" {
			require.NotRegexp(t, `actions/checkout|\bmake\b|\bgo (run|build)\b`, job, name)
		}
	}
}

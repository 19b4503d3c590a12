// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package requirements

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/node/host"
)

func TestProblems(t *testing.T) {
	t.Parallel()
	good := facts{os: "linux", goTool: "go1.26.2", folder: "/cache", disk: firstDisk, memory: leastMemory}
	for name, test := range map[string]struct {
		reason string
		change func(*facts)
		want   []string // substring of each problem
	}{
		"nothing": {reason: "the minimum is sufficient", change: func(*facts) {}},
		"unknown": {
			reason: "unknown values are not refused",
			change: func(f *facts) {
				f.disk = 0
				f.memory = 0
			},
		},
		"darwin":      {reason: "untested, but not refused", change: func(f *facts) { f.os = "darwin" }},
		"windows":     {reason: "the lab needs process groups and file locks", change: func(f *facts) { f.os = "windows" }, want: []string{"Linux"}},
		"no go":       {reason: "the programs are built from source", change: func(f *facts) { f.goTool = "" }, want: []string{"go.dev/dl"}},
		"little disk": {reason: "the remedy names the folder", change: func(f *facts) { f.disk-- }, want: []string{"12.0 GiB are needed in /cache"}},
		"built before": {
			reason: "cached binaries need little disk space",
			change: func(f *facts) {
				f.cached = true
				f.disk = laterDisk
			},
		},
		"real nodes": {
			reason: "their images are copied for each node",
			change: func(f *facts) {
				f.nodes = &realFacts{cached: true}
				f.cached = true
				f.disk = laterDisk
				f.memory = leastMemory + nodesMemory
			},
			want: []string{"6.0 GiB are needed in /cache"},
		},
		"no root": {
			reason: "the remedy is named",
			change: func(f *facts) {
				f.nodes = &realFacts{missing: fmt.Errorf("%w: Remedy: x", host.ErrMissing), cached: true}
				f.memory = leastMemory + nodesMemory
				f.disk += nodesDisk
			},
			want: []string{"this machine cannot run real nodes"},
		},
		"both": {
			reason: "all problems are reported at once",
			change: func(f *facts) {
				f.memory = gib
				f.cached = true
				f.disk = gib
			},
			want: []string{
				"2.0 GiB are needed in /cache", "4.0 GiB are needed",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := good
			test.change(&f)
			problems := f.problems()
			require.Len(t, problems, len(test.want), test.reason)
			for i, part := range test.want {
				require.Contains(t, problems[i], part, test.reason)
				require.Contains(t, problems[i], "Remedy: ", "each problem has a remedy")
			}
		})
	}
}

func TestParseMemory(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]uint64{
		"MemTotal: 8388608 kB\nMemAvailable:    4194304 kB\n": 4 * gib,
		"MemTotal: 8388608 kB\n":                              0,
		"MemAvailable: lots\n":                                0,
		"":                                                    0,
	} {
		require.Equal(t, want, parseMemory(strings.NewReader(text)), text)
	}
}

func TestWereBuilt(t *testing.T) {
	t.Parallel()
	cache := t.TempDir()
	patterns := []string{"kubernetes-*/kube-scheduler", "kubevirt-*/virt-controller"}
	require.False(t, wereBuilt(filepath.Join(cache, "absent"), patterns...))
	for _, file := range []string{"kubernetes-1/kube-scheduler", "kubevirt-2/virt-controller"} {
		require.False(t, wereBuilt(cache, patterns...), "before %s", file)
		require.NoError(t, os.MkdirAll(filepath.Join(cache, filepath.Dir(file)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(cache, file), nil, 0o600))
	}
	require.True(t, wereBuilt(cache, patterns...))
}

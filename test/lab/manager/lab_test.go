// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"flag"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestStore(t *testing.T) {
	t.Parallel()
	s := store{folder: t.TempDir(), name: "x"}
	_, err := s.load()
	require.ErrorIs(t, err, errNotRunning, "no lab was ever started")

	release, err := s.claim(t.Context())
	require.NoError(t, err)
	_, err = s.load()
	require.ErrorIs(t, err, errNotRunning, "it has not written its state yet")
	require.NoError(t, s.save(&state{
		Name:      "x",
		PID:       os.Getpid(),
		StartedAt: time.Unix(0, 0).UTC(),
		Processes: []processState{
			{Name: "me", PID: os.Getpid()}, {Name: "gone", PID: 1 << 30, Running: true},
		},
	}))
	st, err := s.load()
	require.NoError(t, err)
	require.Equal(t, os.Getpid(), st.PID)
	require.True(t, st.Processes[0].Running)
	require.False(t, st.Processes[1].Running, "the state of processes is looked up, not stored")
	_, err = s.lock()
	require.ErrorIs(t, err, errRunning)

	release()
	_, err = s.load()
	require.ErrorIs(t, err, errNotRunning, "a state whose lab was killed is stale")
	require.NoError(t, s.remove())
	require.NoError(t, s.remove(), "a second removal is not an error")
	require.NoError(t, os.WriteFile(s.logFile(), nil, 0o600))
	require.NoError(t, s.clean())
	left, err := os.ReadDir(s.folder)
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestClaimOutlastsALook(t *testing.T) {
	t.Parallel()
	s := store{folder: t.TempDir(), name: "x"}
	look, err := s.lock()
	require.NoError(t, err)
	time.AfterFunc(100*time.Millisecond, look)
	release, err := s.claim(t.Context())
	require.NoError(t, err)
	release()
}

// TestParse_Refuses calls parse: for a request that is not refused, command would start this program of tests again, as
// a lab in the background.
func TestParse_Refuses(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		reason string
		args   []string
		want   string
	}{
		"nothing":         {reason: "a command is needed", want: "no command given"},
		"unknown command": {reason: "the error names a misspelt command", args: []string{"start"}, want: `no command "start"`},
		"unknown flag":    {reason: "the error names a misspelt flag", args: []string{"up", "--shot=x"}, want: "shot"},
		"stray argument":  {reason: "no argument is ignored", args: []string{"up", "x"}, want: `unexpected argument "x"`},
		"bad name":        {reason: "the name is part of file names", args: []string{"up", "--name=../x"}, want: "--name"},
		"sidecar alone":   {reason: "a sidecar belongs to a shoot", args: []string{"up", "--sidecar=/bin/true"}, want: "--sidecar needs --shoot"},
		"no such nodes":   {reason: "the error names the values", args: []string{"up", "--nodes=virtual"}, want: "want simulated or real"},
		"too many nodes":  {reason: "each has a network for its pods", args: []string{"up", "--nodes=real", "--node-count=99"}, want: "want 1 to 50"},
		"no guests":       {reason: "simulated guests have no image", args: []string{"up", "--guest-image"}, want: "need --nodes=real"},
		"no such sidecar": {
			reason: "it is reported before any process is started",
			args:   []string{"run", "--shoot=s", "--sidecar=" + filepath.Join("does", "not", "exist")},
			want:   "no such file",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			_, _, err := parse(test.args, &out)
			require.ErrorContains(t, err, test.want, test.reason)
		})
	}
}

func TestParse_Commands(t *testing.T) {
	t.Parallel()
	for _, want := range slices.Sorted(maps.Keys(commands)) {
		require.Regexp(t, "[ |]"+want+"[ |]", usage)
		name, r, err := parse([]string{want, "--shoot=s", "--sidecar=main.go"}, io.Discard)
		require.NoError(t, err)
		require.Equal(t, want, name)
		require.True(t, filepath.IsAbs(r.sidecar), "a name without a folder would be looked up in PATH")
	}
}

func TestArgumentsSurviveTheWayToTheBackground(t *testing.T) {
	t.Parallel()
	r := request{name: "n", shoot: "s", sidecar: "/bin/true", sidecarArgs: "--v=4 --x", keepLogs: true, nodes: realOnes, nodeCount: 3}
	args := r.arguments()
	require.Equal(t, "run", args[0])
	require.Contains(t, args, "--sidecar-args=--v=4 --x")
	require.Contains(t, args, "--keep-logs=true")
	require.Contains(t, args, "--nodes=real")
	require.Contains(t, args, "--node-count=3")
}

// TestDocumentedCommands parses the commands on the pages.
func TestDocumentedCommands(t *testing.T) {
	t.Parallel()

	found := 0

	for _, page := range []string{"../../../extension/docs/development/local-setup.md", "../../../docs/development.md", "../README.md"} {
		text, err := os.ReadFile(page)
		require.NoError(t, err)

		for _, match := range regexp.MustCompile("go run \\./test/lab ([a-z]+)([^`#\n]*)").FindAllStringSubmatch(string(text), -1) {
			if match[1] == "scenario" {
				continue // of the command lab itself
			}

			require.Regexp(t, "[ |]"+match[1]+"[ |]", usage, match[0])

			var r request
			flags := flag.NewFlagSet("lab", flag.ContinueOnError)
			r.define(flags)
			require.NoError(t, flags.Parse(strings.Fields(match[2])), match[0])
			require.Empty(t, flags.Args(), match[0])

			found++
		}
	}

	require.Greater(t, found, 2, "one page names several commands")
}

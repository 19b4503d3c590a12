// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package crash

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

// labState is the lab command's JSON output.
type labState struct {
	PID       int    `json:"pid"`
	Ready     bool   `json:"ready"`
	LogDir    string `json:"logDir"`
	Processes []struct {
		Name    string `json:"name"`
		PID     int    `json:"pid"`
		Running bool   `json:"running"`
	} `json:"processes"`
}

// TestLabLeavesNothingBehind starts a second lab with the lab command, in addition to the one of
// this package, and ends it in both ways: on request, and by the death of its owner.
func TestLabLeavesNothingBehind(t *testing.T) {
	t.Parallel()

	command := filepath.Join(t.TempDir(), "lab")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-ldflags=-s -w", "-o", command, "../../lab/manager").CombinedOutput()
	require.NoError(t, err, string(out))

	ends := map[string]func(t *testing.T, name string, state labState){
		"Down": func(t *testing.T, name string, _ labState) {
			t.Helper()

			out, err := exec.CommandContext(t.Context(), command, "down", "--name="+name).CombinedOutput()
			require.NoError(t, err, string(out))
		},
		"Kill": func(t *testing.T, _ string, state labState) {
			t.Helper()
			require.NoError(t, syscall.Kill(state.PID, syscall.SIGKILL))
		},
	}

	for how, end := range ends {
		t.Run(how, func(t *testing.T) {
			t.Parallel()

			name := "test-" + rand.String(5)
			t.Cleanup(func() {
				_ = exec.CommandContext(context.WithoutCancel(t.Context()), command, "down", "--name="+name).Run() // The lab has already ended, unless the test failed.
			})

			out, err := exec.CommandContext(t.Context(), command, "up", "--name="+name).CombinedOutput()
			require.NoError(t, err, string(out))

			state := readLabState(t, command, name)
			require.True(t, state.Ready)
			require.NotEmpty(t, state.Processes)

			end(t, name, state)

			for _, process := range state.Processes {
				require.True(t, process.Running, process.Name)
				harness.Eventually(t, process.Name+" has ended", func(context.Context) (bool, error) {
					return ended(process.PID), nil
				})
			}

			data := filepath.Join(filepath.Dir(state.LogDir), "data")
			harness.Eventually(t, "the lab's data are gone", func(context.Context) (bool, error) {
				_, err := os.Stat(data)

				return os.IsNotExist(err), nil
			})

			require.Error(t, exec.CommandContext(t.Context(), command, "status", "--name="+name).Run(), "no lab may be running")
		})
	}
}

func readLabState(t *testing.T, command, name string) labState {
	t.Helper()

	out, err := exec.CommandContext(t.Context(), command, "status", "--name="+name, "-o=json").Output()
	require.NoError(t, err)

	var state labState
	require.NoError(t, json.Unmarshal(out, &state))

	return state
}

// ended reports whether a process is gone or a zombie.
func ended(pid int) bool {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return true
	}

	_, fields, _ := bytes.Cut(stat, []byte(") "))

	return bytes.HasPrefix(fields, []byte("Z"))
}

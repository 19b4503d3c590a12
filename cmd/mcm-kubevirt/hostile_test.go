// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/commands"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/hostile"
)

// asProgram is the environment variable that makes the test binary run as the program. Its value is
// the file for the peak memory.
const asProgram = "MCM_KUBEVIRT_PROGRAM"

func TestMain(m *testing.M) {
	if file := os.Getenv(asProgram); file != "" {
		code := execute()
		if failed := os.WriteFile(file, []byte(strconv.Itoa(hostile.PeakMemory())), 0o600); failed != nil {
			panic(failed)
		}

		os.Exit(code)
	}

	os.Exit(m.Run())
}

// TestHostileAnswers lets hostile servers answer every request of preflight.
func TestHostileAnswers(t *testing.T) { //nolint:tparallel // It logs the figures of its subtests after they have ended.
	t.Parallel()

	var (
		mu             sync.Mutex
		slowest        time.Duration
		slow           string
		largest, count int
	)

	t.Run("Answers", func(t *testing.T) {
		for name, answer := range hostile.Answers() {
			t.Run(name, func(t *testing.T) {
				t.Parallel()

				took, memory := preflightOf(t, answer)
				require.Less(t, memory, hostile.MostMemory, answer.Reason)

				mu.Lock()
				defer mu.Unlock()

				count++

				largest = max(largest, memory)
				if took > slowest {
					slowest = took
					slow = name
				}
			})
		}
	})

	t.Logf("%d answers: the longest run took %s (%s), the largest process had %d MiB", count, slowest.Round(time.Millisecond), slow, largest>>10)
}

// preflightOf runs the program, and returns its duration and its peak memory, in KiB.
func preflightOf(t *testing.T, answer hostile.Answer) (took time.Duration, memory int) {
	t.Helper()

	server := httptest.NewTLSServer(answer.Serve)
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)

	// A process that hangs is killed. The others end within seconds, which the test logs.
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()

	class := strings.Replace(commands.Valid, "containerDisk: {image: example.com/image}",
		"storage: {resources: {requests: {storage: 1Gi}}}, source: {http: {url: \"https://example.com/image\"}}", 1)

	var out bytes.Buffer

	program := exec.CommandContext(ctx, os.Args[0], "preflight", "-f", "-")
	peak := filepath.Join(t.TempDir(), "peak")
	program.Env = append(os.Environ(), asProgram+"="+peak, hostile.MemoryLimit)
	program.Stdin = strings.NewReader(commands.WithSecret(class, commands.KubeconfigOf(server)))
	program.Stdout = &out
	program.Stderr = &out

	began := time.Now()
	err := program.Run()
	took = time.Since(began)

	var exit *exec.ExitError
	if err != nil {
		require.ErrorAs(t, err, &exit)
		require.True(t, exit.Exited(), "it ends by itself: %s", out.String())
	}

	text, err := os.ReadFile(peak)
	require.NoError(t, err)

	memory, err = strconv.Atoi(string(text))
	require.NoError(t, err)

	return took, memory
}

// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

//go:build bench

package main

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/process"
)

// environment is the variable with the setting of a process that measures itself.
const environment = "FOREIGN_CLUSTERS"

// TestForeignClusters measures the memory of the cache with Clusters of other providers that have a
// CloudProfile of 1 MiB each: whole, as before, and reduced. Each measurement is a process of its own.
func TestForeignClusters(t *testing.T) {
	if setting := os.Getenv(environment); setting != "" {
		measure(t, strings.Fields(setting))

		return
	}

	for _, kept := range []string{"whole", "reduced"} {
		for _, sent := range []string{"pages", "stream"} {
			for _, clusters := range []int{0, 100, 400, 800} {
				program := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestForeignClusters$", "-test.v")
				program.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s %d", environment, kept, sent, clusters))

				out, err := program.CombinedOutput()
				require.NoError(t, err, string(out))
				found := regexp.MustCompile(`(?m)^.*MiB of foreign.*$`).Find(out)

				require.NotEmpty(t, found, string(out))
				t.Logf("%s", found)
			}
		}
	}
}

// measure reports the memory of this process, which includes that of the API server: it has constant memory.
func measure(t *testing.T, setting []string) {
	t.Helper()

	clusters, err := strconv.Atoi(setting[2])
	require.NoError(t, err)

	debug.SetGCPercent(gcPercent)

	options := manager.Options{}
	if setting[0] == "reduced" {
		options = withSmallCache(options)
	} else {
		options.Cache.DefaultTransform = cache.TransformStripManagedFields()
	}

	server := &seed{types: []string{"aws"}, profile: 1 << 20, clusters: clusters, streams: setting[1] == "stream"}
	c := server.newCache(t, options)

	runtime.GC()

	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)

	used, err := process.MemoryOf(os.Getpid())
	require.NoError(t, err)

	t.Logf("%4d MiB of foreign Clusters, %s, %s: heap %d MiB, peak %.0f MiB", clusters, setting[0], setting[1], memory.HeapAlloc>>20, used.Peak)
	runtime.KeepAlive(c)
}

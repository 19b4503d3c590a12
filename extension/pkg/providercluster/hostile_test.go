// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

//go:build bench

package providercluster

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/process"
)

// environment is the variable with the setting of a process that measures itself.
const environment = "HOSTILE_SERVERS"

// hostile are objects whose lists take much memory.
var hostile = map[string]string{
	"labels":      `{"metadata": {"name": "m", "labels": {"a": "` + strings.Repeat("x", 1<<20) + `"}}}`,
	"annotations": `{"metadata": {"name": "m", "annotations": {"a": "` + strings.Repeat("x", 2<<20) + `"}}}`,
	"elements":    `{"metadata": {"name": "m", "ownerReferences": [{}` + strings.Repeat(",{}", 15_000) + `]}}`,
	"members":     `{"metadata": {"name": "m", "annotations": {` + members(150_000) + `}}}`,
}

func members(count int) string {
	all := make([]string, count)
	for i := range all {
		all[i] = fmt.Sprintf(`"%d":""`, i)
	}

	return strings.Join(all, ",")
}

// TestHostileLists measures the memory of lists from hostile servers: of one, and of twenty at the same
// time. Each measurement is a process of its own.
func TestHostileLists(t *testing.T) {
	if setting := os.Getenv(environment); setting != "" {
		measure(t, strings.Fields(setting))

		return
	}

	for object := range hostile {
		for _, servers := range []int{1, 20} {
			program := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestHostileLists$", "-test.v")
			program.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d", environment, object, servers))

			out, err := program.CombinedOutput()
			require.NoError(t, err, string(out))
			found := regexp.MustCompile(`(?m)^.*servers with.*$`).Find(out)

			require.NotEmpty(t, found, string(out))
			t.Logf("%s", found)
		}
	}
}

// measure reads lists without an end, of metadata and of whole objects.
func measure(t *testing.T, setting []string) {
	t.Helper()

	debug.SetGCPercent(50) // as the extension does

	servers, err := strconv.Atoi(setting[1])
	require.NoError(t, err)

	page := []byte(`{"kind": "VirtualMachineList", "apiVersion": "kubevirt.io/v1", "metadata": {"continue": "CONTINUE"}, "items": [` + hostile[setting[0]] + `]}`)

	var reading sync.WaitGroup

	for range servers {
		pages := 0
		c := &Cluster{Client: serve(t, func(w http.ResponseWriter, _ *http.Request) {
			pages++ // One request at a time.

			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(strings.Replace(string(page[:200]), "CONTINUE", strconv.Itoa(pages), 1))) // The client may hang up.
			_, _ = w.Write(page[200:])
		})}

		reading.Go(func() {
			_, _ = c.ListMetadata(t.Context(), virtualMachines, nil) // The list does not end.
			_, _ = Collect(t.Context(), c, &kubevirtv1.VirtualMachineList{}, func(vm *kubevirtv1.VirtualMachine) (string, bool) { return vm.Name, true })
			_ = c.List(t.Context(), &kubevirtv1.VirtualMachineList{}, client.Limit(1))
		})
	}

	reading.Wait()

	used, err := process.MemoryOf(os.Getpid())
	require.NoError(t, err)

	t.Logf("%d servers with large %s: peak %.0f MiB", servers, setting[0], used.Peak)
}

// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providercluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/evacuation/provider"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/images"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/hostile"
)

// hostileKubeconfig names the file with the kubeconfig of a malicious server. With it, the test's
// binary is a process that calls every method, whose memory can be measured.
const hostileKubeconfig = "HOSTILE_KUBECONFIG"

func TestMain(m *testing.M) {
	if file := os.Getenv(hostileKubeconfig); file != "" {
		os.Exit(callEverything(file))
	}

	os.Exit(m.Run())
}

const (
	// hangs is the timeout of a process. The calls end within seconds, which the test prints.
	hangs = 5 * time.Minute
	// mostRequests and mostLogged bound the requests and the bytes of log per second of the process that calls
	// all methods: the rate limit of the clients is 1000 here.
	mostRequests, mostLogged = 1000.0, 100_000.0
)

// TestHostileAnswers has malicious servers for every request of every method, which is called for fifty
// machines at a time.
func TestHostileAnswers(t *testing.T) { //nolint:tparallel // It prints the figures of its subtests when they have ended.
	t.Parallel()

	var (
		mu      sync.Mutex
		slowest time.Duration
		largest int
		where   string
	)

	answers := hostile.Answers()

	t.Run("Answers", func(t *testing.T) {
		for name, answer := range answers {
			t.Run(name, func(t *testing.T) {
				t.Parallel()

				took, method, memory := callsOf(t, answer)

				mu.Lock()
				defer mu.Unlock()

				largest = max(largest, memory)
				if took > slowest {
					slowest = took
					where = method + " of " + name
				}
			})
		}
	})

	t.Logf("%d answers: the longest call took %s (%s), the largest process had %d MiB", len(answers), slowest.Round(time.Millisecond), where, largest>>10)
}

// callsOf runs a process that calls every method for each machine, within the sidecar's memory limit, and
// returns the duration of the longest calls and the peak memory of the process, in KiB.
func callsOf(t *testing.T, answer hostile.Answer) (longest time.Duration, method string, memory int) {
	t.Helper()

	var requests atomic.Int64

	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		answer.Serve(w, r)
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // The client hangs up.
	server.StartTLS()
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)

	file := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(file, hostile.Kubeconfig(t, server), 0o600))

	ctx, cancel := context.WithTimeout(t.Context(), hangs)
	defer cancel()

	var out, logged bytes.Buffer

	process := exec.CommandContext(ctx, os.Args[0])
	process.Env = append(os.Environ(), hostileKubeconfig+"="+file, hostile.MemoryLimit)
	process.Stdout = &out
	process.Stderr = &logged
	hostile.Contain(t, process, hostile.ContainerLimit)

	began := time.Now()
	require.NoError(t, process.Run(), "%s: it ends by itself: %s", answer.Reason, out.String())

	calls := strings.Split(strings.TrimSpace(out.String()), "\n")
	require.Len(t, calls, len(methods(nil, nil, nil, nil, ""))+1)

	memory, err := strconv.Atoi(calls[len(calls)-1])
	require.NoError(t, err)

	seconds := time.Since(began).Seconds()
	t.Logf("peak %d MiB, %.0f requests and %.0f bytes of log per second", memory>>10, float64(requests.Load())/seconds, float64(logged.Len())/seconds)
	require.Less(t, memory, hostile.MostMemory, "%s, in KiB", answer.Reason)
	require.Less(t, float64(requests.Load())/seconds, mostRequests, answer.Reason)
	require.Less(t, float64(logged.Len())/seconds, mostLogged, answer.Reason)

	for _, line := range calls[:len(calls)-1] {
		name, duration, _ := strings.Cut(line, " ")
		took, err := time.ParseDuration(duration)
		require.NoError(t, err, line)

		if took > longest {
			longest = took
			method = name
		}
	}

	return longest, method, memory
}

// callEverything calls every method for each machine, and prints the duration of the calls of each method and
// the peak memory.
func callEverything(file string) int {
	kubeconfig, err := os.ReadFile(file)
	if err != nil {
		return 1
	}

	clients := providerapi.NewCache(providerapi.Options{QPS: 1000, Burst: 1000, RetryFor: 500 * time.Millisecond})
	p := NewMachines(clients, images.NewManager(clock.RealClock{}, time.Hour), Options{
		InitializeWait:     time.Second,
		UnschedulableGrace: time.Second,
		OrphanGracePeriod:  time.Minute,
		OrphanPeriod:       time.Hour,
		MaxDeleteWait:      time.Second,
	})
	explainer := NewExplainer(clients, clock.RealClock{}, time.Second)

	evacuator := provider.New(clients)

	for name := range methods(nil, nil, nil, nil, "") {
		began := time.Now()

		var calls sync.WaitGroup

		for i := range hostile.Machines {
			calls.Go(func() {
				call := methods(p, explainer, evacuator, kubeconfig, fmt.Sprintf("m-%d", i))[name]
				_ = call(context.Background()) //nolint:forbidigo // This process is the program. The result depends on the response.
			})
		}

		calls.Wait()

		fmt.Println(name, time.Since(began)) //nolint:forbidigo // It is a process of its own, which is read from.
	}

	fmt.Println(hostile.PeakMemory()) //nolint:forbidigo // see above

	return 0
}

// methods are those of a provider that ask the provider cluster.
func methods(p *Machines, explainer *Explainer, evacuator *provider.Evacuator, kubeconfig []byte, machine string) map[string]func(context.Context) error {
	id := spi.Identity{Cluster: "c", Role: "node"}
	create := hostileMachine(kubeconfig)
	create.Name = machine
	observe := &spi.ObserveMachineInput{Kubeconfig: kubeconfig, Name: machine, Identity: id, CreationTimeout: time.Hour, Image: ptr.To(create.Image())}
	deleted := spi.Class{Deleted: true} // Then golden images are swept.
	keep := func(_ any, err error) error { return err }

	return map[string]func(context.Context) error{
		"CreateMachine":     func(ctx context.Context) error { return keep(p.CreateMachine(ctx, create)) },
		"GetMachineStatus":  func(ctx context.Context) error { return keep(p.GetMachineStatus(ctx, observe)) },
		"InitializeMachine": func(ctx context.Context) error { return keep(p.InitializeMachine(ctx, observe)) },
		"ListMachines": func(ctx context.Context) error {
			return keep(p.ListMachines(ctx, &spi.ListMachinesInput{Kubeconfig: kubeconfig, Identity: id, Class: deleted, Image: observe.Image}))
		},
		"DeleteMachine": func(ctx context.Context) error {
			return p.DeleteMachine(ctx, &spi.DeleteMachineInput{Kubeconfig: kubeconfig, Name: machine, Identity: id, Class: deleted, Image: observe.Image})
		},
		"ExplainMachine": func(ctx context.Context) error {
			return keep(explainer.ExplainMachine(ctx, &spi.ExplainMachineInput{Kubeconfig: kubeconfig, Name: machine, Identity: id, Create: create}))
		},
		"Evacuations": func(ctx context.Context) error {
			if machine != "m-0" {
				return nil // There is one for all machines.
			}

			return evacuate(ctx, evacuator, kubeconfig, id)
		},
	}
}

// evacuate watches for a while.
func evacuate(ctx context.Context, evacuator *provider.Evacuator, kubeconfig []byte, id spi.Identity) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()

	seen, err := evacuator.WatchEvacuations(ctx, &spi.WatchEvacuationsInput{Kubeconfig: kubeconfig, Identity: id}, func() {})
	if err != nil {
		return err
	}

	<-ctx.Done()

	_, complete := seen.List()
	_, err = seen.Confirm(context.WithoutCancel(ctx), &spi.Evacuation{Machine: "m", UID: "u", Node: "n"})

	return errors.Join(err, fmt.Errorf("complete: %t", complete))
}

// hostileMachine is one that is cloned from a golden image.
func hostileMachine(kubeconfig []byte) *spi.CreateMachineInput {
	spec, faults := v1alpha1.Decode([]byte(`{"region":"r","zone":"z","memory":{"guest":"1Gi"},
		"tags":{"mcm.gardener.cloud/cluster":"c","mcm.gardener.cloud/role":"node"},
		"rootVolume":{"storage":{"resources":{"requests":{"storage":"1Gi"}}},"source":{"http":{"url":"https://example.com/image"}}}}`), nil)
	if len(faults) > 0 {
		panic(faults.ToAggregate())
	}

	return &spi.CreateMachineInput{Kubeconfig: kubeconfig, Name: "m", UserData: []byte("#cloud-config"), Spec: spec}
}

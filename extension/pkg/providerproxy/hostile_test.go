// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providerproxy

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/rest"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/charts"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/providercluster"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi/transport"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/hostile"
)

// The environment variables that make this test binary one of the two programs of a pod.
const (
	asProxy   = "TEST_PROXY_FOLDER"
	asProgram = "TEST_PROGRAM_SERVER"
)

// TestProcess_Proxy is the proxy, in a process of its own. It writes its address to the standard output.
func TestProcess_Proxy(t *testing.T) {
	t.Parallel()

	folder := os.Getenv(asProxy)
	if folder == "" {
		return // This is the process of the tests.
	}

	require.NoError(t, New(folder, transport.AnyServer, logr.Discard()).Serve(t.Context(), Ports{}, func(requests, _ net.Addr) {
		fmt.Fprintln(os.Stdout, requests.String())
	}))
}

const (
	// workers is the number of workers of cloud-controller-manager and of the CSI driver's attacher.
	workers = 10
	// rounds is the number of requests of each worker.
	rounds = 2
)

// TestProcess_Program sends the requests of cloud-controller-manager and of the CSI driver, in a process of
// its own, and writes the peak of its memory to the standard output, in KiB,
// and the number of the responses that it received.
func TestProcess_Program(t *testing.T) {
	t.Parallel()

	server := os.Getenv(asProgram)
	if server == "" {
		return // This is the process of the tests.
	}

	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(kubevirtv1.VirtualMachineInstanceGroupVersionKind, meta.RESTScopeNamespace)

	c, err := client.New(&rest.Config{Host: server, QPS: -1}, client.Options{Scheme: providercluster.NewScheme(), Mapper: mapper})
	require.NoError(t, err)

	var (
		all      sync.WaitGroup
		received atomic.Int32
	)

	for range workers {
		all.Go(func() {
			for range rounds {
				for _, err := range []error{
					c.Get(t.Context(), client.ObjectKey{Namespace: "machines", Name: "m"}, &kubevirtv1.VirtualMachineInstance{}),
					c.List(t.Context(), &kubevirtv1.VirtualMachineInstanceList{}, client.InNamespace("machines")),
				} {
					if err == nil {
						received.Add(1)
					}
				}
			}
		})
	}

	all.Wait()
	fmt.Fprintln(os.Stdout, hostile.PeakMemory(), received.Load())
}

// TestHostileProxy_Answers passes every hostile answer through the proxy: each request ends, and no response is
// larger than its bound.
func TestHostileProxy_Answers(t *testing.T) {
	t.Parallel()

	const path = "/apis/kubevirt.io/v1/namespaces/machines/virtualmachineinstances"

	for name, tc := range hostile.Answers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			front := before(t, tc.Serve)
			for _, target := range []string{path, path + "/m", path + "?watch=true"} {
				timeout := time.Minute
				if strings.Contains(target, "watch") {
					timeout = 3 * time.Second // Some do not end by themselves.
				}

				ctx, cancel := context.WithTimeout(t.Context(), timeout)
				request, err := http.NewRequestWithContext(ctx, http.MethodGet, front.URL+target, http.NoBody)
				require.NoError(t, err)

				response, err := http.DefaultClient.Do(request)
				if err != nil && strings.Contains(target, "watch") {
					cancel()

					continue // Its first event is refused.
				}

				require.NoError(t, err, tc.Reason)

				size, err := io.Copy(io.Discard, response.Body)
				require.NoError(t, response.Body.Close())

				if !strings.Contains(target, "watch") {
					require.NoError(t, err, "a response is refused as a whole")
					require.LessOrEqual(t, size, int64(maxBytes+1<<20), tc.Reason)
				}

				require.Empty(t, response.Header.Get("Retry-After"), tc.Reason)
				require.Empty(t, response.Header.Get("Location"), tc.Reason)
				cancel()
			}
		})
	}
}

// TestHostileProxy_PeakMemory runs the proxy and a program as processes of their own against the most
// expensive servers: neither exceeds the limit of its container.
func TestHostileProxy_PeakMemory(t *testing.T) {
	memory := limits(t)

	for name, handler := range worst() {
		provider := httptest.NewTLSServer(handler)
		proxy, address := startProxy(t, mounted(t, provider), memory["kubevirt-provider-proxy"].Soft)
		ofProgram, received := programPeak(t, address, memory["kubevirt-csi-driver"].Soft)
		ofProxy := hostile.PeakMemoryOf(t, proxy.Process.Pid)

		t.Logf("%s: peak of the proxy %d MiB (limit %s), of a program %d MiB (limit %s)", name,
			ofProxy>>10, memory["kubevirt-provider-proxy"].Limit.String(), ofProgram>>10, memory["kubevirt-csi-driver"].Limit.String())
		require.Less(t, int64(ofProxy)<<10, memory["kubevirt-provider-proxy"].Limit.Value(), name)
		require.Less(t, int64(ofProgram)<<10, memory["kubevirt-csi-driver"].Limit.Value(), name)
		require.Equal(t, name == "EndlessBody" || name == "Bomb", received == 0, "%s: %d responses were passed on", name, received)

		require.NoError(t, proxy.Process.Kill())
		_ = proxy.Wait() // It was killed.

		provider.CloseClientConnections()
		provider.Close()
	}
}

// worst are the answers that cost the most memory within the bounds.
func worst() map[string]http.HandlerFunc {
	// A page has the same objects as each of the following five.
	page := func(one string, many int) http.HandlerFunc {
		items := strings.Repeat(one+",", many-1) + one

		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")

			if !strings.HasSuffix(r.URL.Path, "virtualmachineinstances") {
				_, _ = io.WriteString(w, one)

				return
			}

			from, _ := strconv.Atoi(r.URL.Query().Get("continue"))

			position := ""
			if from < 5 {
				position = strconv.Itoa(from + 1)
			}

			_, _ = fmt.Fprintf(w, `{"kind":"VirtualMachineInstanceList","apiVersion":"kubevirt.io/v1","metadata":{"continue":%q},"items":[%s]}`, position, items)
		}
	}
	head := `{"kind":"VirtualMachineInstance","apiVersion":"kubevirt.io/v1","metadata":{"name":"m"`
	interfaces := func(many int) string {
		return head + `},"spec":{"domain":{"devices":{"interfaces":[` + strings.Repeat("{},", many-1) + `{}]}}}}`
	}

	return map[string]http.HandlerFunc{
		"EmptyObjects":      page("{}", 330),
		"LargestInterfaces": page(interfaces(380), 50),
		"LargestInstance":   page(interfaces(19_900), 1),
		"LargestObjects":    page(head+`,"annotations":{"a":"`+strings.Repeat("x", 52<<10)+`"}}}`, 50),
		"LargestName":       hostile.Answers()["LargestName"].Serve,
		"EndlessBody":       hostile.Answers()["EndlessBody"].Serve,
		"Bomb":              hostile.Answers()["Bomb"].Serve,
	}
}

// limit is the memory of a container in the chart's values.
type limit struct {
	Soft  string            `json:"soft"`
	Limit resource.Quantity `json:"limit"`
}

func limits(t *testing.T) map[string]*limit {
	t.Helper()

	raw, err := charts.Internal.ReadFile(charts.Path + "/seed-controlplane/values.yaml")
	require.NoError(t, err)

	values := struct {
		Memory map[string]*limit `json:"memory"`
	}{}
	require.NoError(t, yaml.Unmarshal(raw, &values))

	return values.Memory
}

func startProxy(t *testing.T, folder, soft string) (*exec.Cmd, string) {
	t.Helper()

	command := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestProcess_Proxy$")
	command.Env = append(os.Environ(), asProxy+"="+folder, "GOMEMLIMIT="+soft)
	output, err := command.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, command.Start())

	address, err := bufio.NewReader(output).ReadString('\n')
	require.NoError(t, err)

	return command, strings.TrimSpace(address)
}

// programPeak returns the peak memory of a program in KiB, and the number of the responses that it received.
func programPeak(t *testing.T, address, soft string) (peak, received int) {
	t.Helper()

	command := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestProcess_Program$")
	command.Env = append(os.Environ(), asProgram+"=http://"+address, "GOMEMLIMIT="+soft)

	output, err := command.Output()
	require.NoError(t, err)

	_, err = fmt.Sscan(string(output), &peak, &received)
	require.NoError(t, err)

	return peak, received
}

// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/driver"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/driverrpc"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/machineclass"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/hostile"
)

// maliciousShoots is the number of shoots with a malicious provider cluster.
const maliciousShoots = 4

// TestHostileServe runs serve for several shoots. The provider clusters of all but one are malicious, and
// fifty machines of each are processed at a time. The calls for the last one succeed.
func TestHostileServe(t *testing.T) {
	t.Parallel()

	for _, name := range []string{"SmallBodies", "LargestName", "LongUID", "NewUIDs", "LongToken", "Texts", "EndlessBody", "EndlessLists", "ShortWatch"} {
		answer := hostile.Answers()[name]

		t.Run(name, func(t *testing.T) {
			t.Parallel()

			peak, requests := serveFor(t, answer)
			t.Logf("peak %d MiB, %.0f requests per second", peak>>10, requests)
			require.Less(t, peak, hostile.ContainerLimit>>10, answer.Reason)
		})
	}
}

// serveFor returns the peak memory of serve, in KiB, and its requests per second to the malicious server.
func serveFor(t *testing.T, answer hostile.Answer) (peak int, requests float64) {
	t.Helper()

	var count atomic.Int64

	malicious := make([]*corev1.Secret, maliciousShoots)

	for i := range malicious {
		server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			count.Add(1)
			answer.Serve(w, r)
		}))
		t.Cleanup(server.Close)
		t.Cleanup(server.CloseClientConnections)

		malicious[i] = secretFor(t, server)
	}

	honest := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"1"},"items":[]}`)
	}))
	t.Cleanup(honest.Close)

	folder := t.TempDir()
	client, stop := startServe(t, folder)

	var (
		other sync.WaitGroup
		ended atomic.Bool
	)

	other.Go(func() {
		for !ended.Load() {
			_, err := client.ListMachines(t.Context(), &driver.ListMachinesRequest{MachineClass: classFor(), Secret: secretFor(t, honest)})
			if err != nil {
				t.Errorf("the other shoot: %v", err)
			}
		}
	})

	began := time.Now()

	var shoots sync.WaitGroup

	for _, secret := range malicious {
		shoots.Go(func() { callAll(t, client, secret) })
	}

	shoots.Wait()

	requests = float64(count.Load()) / time.Since(began).Seconds()

	ended.Store(true)
	other.Wait()
	stop()

	text, err := os.ReadFile(filepath.Join(folder, "peak"))
	require.NoError(t, err)

	peak, err = strconv.Atoi(string(text))
	require.NoError(t, err)

	return peak, requests
}

// startServe runs serve in a process of its own, and returns a client and a function that ends the process.
func startServe(t *testing.T, folder string) (*driverrpc.Client, func()) {
	t.Helper()

	socket := filepath.Join(folder, "s")

	var out bytes.Buffer

	program := exec.CommandContext(t.Context(), os.Args[0], "serve", "--listen=unix://"+socket, "--metrics-address=127.0.0.1:0")
	program.Env = append(os.Environ(), asProgram+"="+filepath.Join(folder, "peak"), hostile.MemoryLimit)
	program.Stdout = &out
	program.Stderr = &out
	hostile.Contain(t, program, hostile.ContainerLimit)
	require.NoError(t, program.Start())

	client, err := driverrpc.NewClient("unix://"+socket, insecure.NewCredentials())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	require.Eventually(t, func() bool {
		_, err := client.Info(t.Context())

		return err == nil
	}, time.Minute, 100*time.Millisecond)

	return client, func() {
		require.NoError(t, program.Process.Signal(syscall.SIGTERM))
		require.NoError(t, program.Wait(), "it was not killed: %s", out.String())
	}
}

// callAll calls all methods for fifty machines at a time. The results depend on the server.
func callAll(t *testing.T, client *driverrpc.Client, secret *corev1.Secret) {
	t.Helper()

	var machines sync.WaitGroup

	for i := range hostile.Machines {
		machines.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()

			class := classFor()
			machine := &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("m-%d", i)}}

			_, _ = client.CreateMachine(ctx, &driver.CreateMachineRequest{Machine: machine, MachineClass: class, Secret: secret})
			_, _ = client.InitializeMachine(ctx, &driver.InitializeMachineRequest{Machine: machine, MachineClass: class, Secret: secret})
			_, _ = client.GetMachineStatus(ctx, &driver.GetMachineStatusRequest{Machine: machine, MachineClass: class, Secret: secret})
			_, _ = client.ListMachines(ctx, &driver.ListMachinesRequest{MachineClass: class, Secret: secret})
		})
	}

	machines.Wait()
}

func classFor() *v1alpha1.MachineClass {
	return &v1alpha1.MachineClass{
		ObjectMeta: metav1.ObjectMeta{Name: "c"},
		Provider:   machineclass.Provider,
		SecretRef:  &corev1.SecretReference{Name: "s"},
		ProviderSpec: runtime.RawExtension{Raw: []byte(`{"region":"r","zone":"z","memory":{"guest":"1Gi"},
			"tags":{"mcm.gardener.cloud/cluster":"c","mcm.gardener.cloud/role":"node"},
			"rootVolume":{"storage":{"resources":{"requests":{"storage":"1Gi"}}},"source":{"http":{"url":"https://example.com/image"}}}}`)},
	}
}

func secretFor(t *testing.T, server *httptest.Server) *corev1.Secret {
	t.Helper()

	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "s"},
		Data:       map[string][]byte{"kubeconfig": hostile.Kubeconfig(t, server), "userData": []byte("#cloud-config")},
	}
}

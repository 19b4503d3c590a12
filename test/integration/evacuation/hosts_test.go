// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package evacuation

import (
	"bufio"
	"context"
	"fmt"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/kubelet"
)

// zone is a zone of the provider cluster for the exclusive use of one test, so
// that it can drain hosts.
type zone struct {
	name  string
	hosts []string
}

// addZone adds a zone with the given number of hosts. They stay until the lab ends: pods of other
// tests may run there too.
func addZone(t *testing.T, hosts int) zone {
	t.Helper()

	z := zone{name: "zone-" + rand.String(5)}

	for i := range hosts {
		host := fmt.Sprintf("%s-host-%d", z.name, i)
		require.NoError(t, harness.Lab().AddNode(t.Context(), kubelet.Node{Name: host, Region: "local", Zone: z.name, CPU: "32", Memory: "128Gi"}))
		z.hosts = append(z.hosts, host)
	}

	return z
}

// kubectl runs a command as the provider cluster's administrator.
func kubectl(t *testing.T, args ...string) {
	t.Helper()

	out, err := kubectlCommand(t.Context(), t, args...).CombinedOutput()
	require.NoError(t, err, "kubectl %v: %s", args, out)
}

func kubectlCommand(ctx context.Context, t *testing.T, args ...string) *exec.Cmd {
	t.Helper()

	return exec.CommandContext(ctx, harness.Lab().Binaries.Kubectl,
		append([]string{"--kubeconfig=" + harness.Lab().Provider.AdminKubeconfig, "--cache-dir=" + t.TempDir()}, args...)...)
}

// maintenance bounds an administrator's drain. machine-controller-manager takes half a
// minute for each machine.
const maintenance = 10 * time.Minute

// drain is a running `kubectl drain`.
type drain struct {
	host string
	done chan struct{}

	mu     sync.Mutex
	output []string
	err    error
}

// startDrain drains a host as its administrator does, but only the shoot's pods, because other
// tests use the host too. The drain is cancelled when ctx is done.
func startDrain(ctx context.Context, t *testing.T, s *harness.Shoot, host string, events *harness.Timeline) *drain {
	t.Helper()

	command := kubectlCommand(ctx, t, "drain", host, "--ignore-daemonsets", "--delete-emptydir-data",
		"--pod-selector=mcm.gardener.cloud/cluster="+s.Namespace, "--timeout="+maintenance.String())
	stdout, err := command.StdoutPipe()
	require.NoError(t, err)

	command.Stderr = command.Stdout
	require.NoError(t, command.Start())
	events.Add("admin", "kubectl drain %s", host)

	d := &drain{host: host, done: make(chan struct{})}
	t.Cleanup(func() { <-d.done })

	go func() {
		defer close(d.done)

		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			d.say(lines.Text())
		}

		d.err = command.Wait()
		events.Add("admin", "kubectl drain %s ends: %s", host, d.last())
	}()

	return d
}

func (d *drain) say(line string) {
	d.mu.Lock()
	defer d.mu.Unlock()

	d.output = append(d.output, line)
}

func (d *drain) last() string {
	d.mu.Lock()
	defer d.mu.Unlock()

	if len(d.output) == 0 {
		return "(silence)"
	}

	return d.output[len(d.output)-1]
}

// wait requires that the drain completes successfully.
func (d *drain) wait(t *testing.T) {
	t.Helper()

	<-d.done
	require.NoError(t, d.err, "drain of %s: %s", d.host, d.last())
}

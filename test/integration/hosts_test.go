package integration

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

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane"
)

// zone is a zone of the provider cluster that one test has for itself, so that it may drain hosts.
type zone struct {
	name  string
	hosts []string
}

// addZone adds a zone with so many hosts. They stay until the lab ends: pods of other tests may run there too.
func addZone(t *testing.T, hosts int) zone {
	t.Helper()

	z := zone{name: "zone-" + rand.String(5)}

	for i := range hosts {
		host := fmt.Sprintf("%s-host-%d", z.name, i)
		require.NoError(t, lab.AddNode(t.Context(), dataplane.Node{Name: host, Region: "local", Zone: z.name, CPU: "32", Memory: "128Gi"}))
		z.hosts = append(z.hosts, host)
	}

	return z
}

// kubectl runs a command of the provider cluster's administrator.
func kubectl(t *testing.T, args ...string) {
	t.Helper()

	out, err := kubectlCommand(t.Context(), t, args...).CombinedOutput()
	require.NoError(t, err, "kubectl %v: %s", args, out)
}

func kubectlCommand(ctx context.Context, t *testing.T, args ...string) *exec.Cmd {
	t.Helper()

	return exec.CommandContext(ctx, lab.Binaries.Kubectl,
		append([]string{"--kubeconfig=" + lab.Provider.AdminKubeconfig, "--cache-dir=" + t.TempDir()}, args...)...)
}

// maintenance is how long an admin's drain may take. machine-controller-manager takes half a minute for each machine.
const maintenance = 10 * time.Minute

// drain is a `kubectl drain` under way.
type drain struct {
	host string
	done chan struct{}

	mu     sync.Mutex
	output []string
	err    error
}

// startDrain drains a host as its administrator does, but only of the shoot's pods: other tests use the host too. It is given up
// when ctx ends.
func (s *shoot) startDrain(ctx context.Context, t *testing.T, host string, events *timeline) *drain {
	t.Helper()

	command := kubectlCommand(ctx, t, "drain", host, "--ignore-daemonsets", "--delete-emptydir-data",
		"--pod-selector=mcm.gardener.cloud/cluster="+s.Namespace, "--timeout="+maintenance.String())
	stdout, err := command.StdoutPipe()
	require.NoError(t, err)

	command.Stderr = command.Stdout
	require.NoError(t, command.Start())
	events.add("admin", "kubectl drain %s", host)

	d := &drain{host: host, done: make(chan struct{})}
	t.Cleanup(func() { <-d.done })

	go func() {
		defer close(d.done)

		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			d.say(lines.Text())
		}

		d.err = command.Wait()
		events.add("admin", "kubectl drain %s ends: %s", host, d.last())
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

// wait requires the drain to end by itself, with success.
func (d *drain) wait(t *testing.T) {
	t.Helper()

	<-d.done
	require.NoError(t, d.err, "drain of %s: %s", d.host, d.last())
}

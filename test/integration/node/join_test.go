// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

//go:build node

package node

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"testing"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/node"
)

// bootLimit only ends a failing test. An emulated guest needs minutes of two idle cores, and several
// times as long on a busy machine.
const bootLimit = 40 * time.Minute

// TestWorker takes a worker from its Machine to a Node with a pod and back. Its image is imported by CDI's importer and cloned, its kubelet
// joins with a bootstrap token, the extension's cloud-controller-manager initializes its Node, and it survives a power-off and the drain of its
// provider node.
func TestWorker(t *testing.T) {
	w := newMachine(t, externalUserData, clonedGuestSpec)
	t.Cleanup(func() { w.logConsole(t) })
	w.RunCloudController(t, "--node-status-update-frequency=20s") // of the Node's address, which changes with the pod; by default, 5 minutes
	w.awaitRunning(t)
	node := w.awaitJoined(t)

	for _, step := range []struct {
		name    string
		require func(t *testing.T)
	}{
		{name: "GoldenImage", require: w.requireClone},
		{name: "Identity", require: func(t *testing.T) { t.Helper(); w.requireIdentity(t, node) }},
		{name: "Certificate", require: w.requireCertificate},
		{name: "Login", require: w.requireGuest},
		{name: "PowerCycle", require: func(t *testing.T) { t.Helper(); w.requireRestart(t, node) }},
		{name: "Pod", require: w.requirePod},
		{name: "Agent", require: w.requireAgent},
		{name: "LoadBalancer", require: w.requireLoadBalancer},
		{name: "Drain", require: w.requireMigration},
		{name: "Deletion", require: w.requireGracefulEnd},
	} {
		t.Run(step.name, func(t *testing.T) {
			record(t)
			step.require(t)
		})
	}
}

// requireMigration drains the worker's provider node, and requires that the guest and its pods go on.
func (w *worker) requireMigration(t *testing.T) {
	t.Helper()

	source := w.awaitRunning(t)
	node := w.awaitJoined(t)
	before := w.lookIntoGuest(t)
	lapses := w.watchReadiness(t)
	begin := time.Now()

	w.kubectl(t, "drain", source, "--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=15m")

	drained := time.Now()
	require.NotEqual(t, source, w.instance(t).Status.NodeName, "the drain has migrated the machine")

	after := w.lookIntoGuest(t)
	require.Equal(t, before.boot, after.boot, "the guest has not booted again")
	require.Greater(t, after.uptime, before.uptime)
	w.awaitLease(t, drained)
	require.Empty(t, lapses(), "the Node was always ready")

	joined := w.awaitJoined(t)
	require.Equal(t, node.UID, joined.UID)
	w.awaitNodeAddress(t)
	t.Logf("the Node has the address of the new pod %.0f s after the drain", time.Since(drained).Seconds())
	w.requirePodUnchanged(t)
	w.requireBalanced(t)
	w.deleteLoadBalancer(t)
	w.kubectl(t, "uncordon", source)
	recordMigration(t, drained.Sub(begin), fmt.Sprintf("uptime %.0f s", before.uptime), fmt.Sprintf("uptime %.0f s", after.uptime))
}

// guestUserData returns the user data of kubernetes/example for the lab, without the installation.
func guestUserData(t *testing.T, _ *harness.Shoot) string {
	t.Helper()

	text, err := harness.Lab().GuestUserData()
	require.NoError(t, err)

	return text
}

// externalUserData returns the same for a Node whose addresses are those that a cloud-controller-manager sets.
func externalUserData(t *testing.T, s *harness.Shoot) string {
	t.Helper()

	const option = "--hostname-override=<<MACHINE_NAME>>"

	return harness.MustReplace(guestUserData(t, s), option, option+" --cloud-provider=external")
}

// guestSpec returns the ProviderSpec of a worker whose root disk is imported over HTTP. The disk is larger than its image.
func guestSpec(t *testing.T, s *harness.Shoot) []byte {
	t.Helper()

	root := fmt.Sprintf(`{"source":{"http":{"url":%q}},"storage":{"resources":{"requests":{"storage":"6Gi"}}}}`, serveGuest(t))

	return harness.MergeFields(t, s.Spec(node.Zone, root), fmt.Sprintf(`{"cpu":{"cores":%d},"memory":{"guest":"1Gi"},"disablePreAllocatedDataVolumes":true,
		"networks":[{"pod":{},"masquerade":{}}],"sshKeys":[%q]}`, processors(), authorizedKey()))
}

// processors returns the number of a guest's processors. QEMU sometimes loses the end of an interrupt when it emulates several, of which one
// then hangs.
func processors() int {
	if node.HasKVM() {
		return 2 //nolint:mnd // more than the default
	}

	return 1
}

// serveGuest serves the guests' image, and returns its URL.
func serveGuest(t *testing.T) string {
	t.Helper()

	return serve(t, func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, guestImage) })
}

// serve serves a disk image in the nodes' network until the end of the test, and returns its URL.
func serve(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()

	var listen net.ListenConfig

	listener, err := listen.Listen(t.Context(), "tcp", node.Gateway+":0")
	require.NoError(t, err)

	server := &http.Server{
		ReadHeaderTimeout: time.Minute,
		Handler:           handler,
	}

	go func() { _ = server.Serve(listener) }()

	t.Cleanup(func() { _ = server.Close() })

	return "http://" + listener.Addr().String() + "/disk.raw"
}

// awaitJoined waits until the Machine is Running and its Node is Ready, and returns the Node.
func (w *worker) awaitJoined(t *testing.T) *corev1.Node {
	t.Helper()

	var found *corev1.Node

	harness.Within(t, bootLimit, "the Machine runs and its Node is ready", func(ctx context.Context) (bool, error) {
		m, err := w.MCM.MachineV1alpha1().Machines(w.Namespace).Get(ctx, w.machine.Name, metav1.GetOptions{})
		if err != nil || m.Status.CurrentStatus.Phase != v1alpha1.MachineRunning {
			return false, err
		}

		found, err = w.Target.CoreV1().Nodes().Get(ctx, w.machine.Name, metav1.GetOptions{})

		return err == nil && isReady(found), err
	})
	t.Logf("Node %s is ready on %s, %.0f s after its Machine was requested",
		found.Name, w.instance(t).Status.NodeName, time.Since(w.began).Seconds())

	return found
}

func isReady(n *corev1.Node) bool {
	for _, condition := range n.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}

	return false
}

// kubectl runs kubectl against the provider cluster.
func (w *worker) kubectl(t *testing.T, args ...string) {
	t.Helper()

	output, err := kubectlCommand(t.Context(), args...).CombinedOutput()
	require.NoError(t, err, string(output))
	t.Log(string(output))
}

func kubectlCommand(ctx context.Context, args ...string) *exec.Cmd {
	args = append([]string{"--kubeconfig=" + harness.Lab().Provider.AdminKubeconfig}, args...)

	return exec.CommandContext(ctx, harness.Lab().Binaries.Kubectl, args...)
}

// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

//go:build guest

package guest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/guest"
)

// bootLimit only ends a failing test. An emulated guest needs minutes of two idle cores, and several
// times as long on a busy machine.
const bootLimit = 40 * time.Minute

// pool is the name of a test's only worker pool.
const pool = "real"

// worker is a Machine whose guest boots.
type worker struct {
	*harness.Shoot

	key     string // file with the private SSH key
	machine *v1alpha1.Machine
	began   time.Time
}

// newWorker creates a pool of one Machine and returns when the Machine exists. extra replaces fields of
// the ProviderSpec; prepare is called before.
func newWorker(
	t *testing.T, userData func(*testing.T, *harness.Shoot) string, extra string, prepare ...func(*testing.T, *harness.Shoot),
) *worker {
	t.Helper()

	w := &worker{Shoot: harness.NewShoot(t), began: time.Now()}
	w.key = newKey(t)

	for _, do := range prepare {
		do(t, w.Shoot)
	}

	applyUserData(t, w.Shoot, userData(t, w.Shoot))
	// The bootstrap token is valid for the creation timeout.
	w.RunControllers(t, "--machine-creation-timeout=45m", "--machine-health-timeout=45m")
	w.AddPool(t, pool, 1, harness.MergeFields(t, w.spec(t), extra))
	t.Cleanup(func() { w.logConsole(t) })

	harness.Eventually(t, "the Machine exists", func(ctx context.Context) (bool, error) {
		list, err := w.MCM.MachineV1alpha1().Machines(w.Namespace).List(ctx, metav1.ListOptions{})
		if err != nil || len(list.Items) != 1 {
			return false, err
		}

		w.machine = &list.Items[0]

		return true, nil
	})

	return w
}

// spec is the ProviderSpec of a worker with an SSH key, whose root disk is larger than its image.
func (w *worker) spec(t *testing.T) []byte {
	t.Helper()

	public, err := os.ReadFile(w.key + ".pub")
	require.NoError(t, err)

	return fmt.Appendf(nil, `{"region":"local","zone":"zone-a","cpu":{"cores":2},"memory":{"guest":"1Gi"},
		"tags":{"mcm.gardener.cloud/cluster":%q,"mcm.gardener.cloud/role":"node"},
		"rootVolume":{"source":{"registry":{"url":"docker://registry.example.com/worker:1"}},
			"storage":{"storageClassName":"immediate","accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"10Gi"}}}},
		"sshKeys":[%q],
		"virtualMachineTemplate":{"spec":{"template":{"metadata":{"annotations":{"sim.lab/guest":"real"}}}}}}`,
		w.Namespace, string(public[:len(public)-1]))
}

// awaitReady waits until the Machine is Running and its Node is Ready, and returns the Node.
func (w *worker) awaitReady(t *testing.T) *corev1.Node {
	t.Helper()

	var found *corev1.Node

	harness.Within(t, bootLimit, "the Machine runs and its Node is ready", func(ctx context.Context) (bool, error) {
		m, err := w.MCM.MachineV1alpha1().Machines(w.Namespace).Get(ctx, w.machine.Name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}

		if m.Status.CurrentStatus.Phase != v1alpha1.MachineRunning {
			return false, nil
		}

		found, err = w.Target.CoreV1().Nodes().Get(ctx, m.Name, metav1.GetOptions{})

		return err == nil && isReady(found), err
	})

	info, running := harness.Lab().Guests.Find(w.machine.Name)
	require.True(t, running)

	used, err := guest.CPUTime(info.PID)
	require.NoError(t, err)
	t.Logf("Node %s is ready %.0f s after its Machine was requested; QEMU has used %.0f s of CPU time",
		found.Name, time.Since(w.began).Seconds(), used.Seconds())

	return found
}

func isReady(node *corev1.Node) bool {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}

	return false
}

// remove deletes the worker, and returns when it is gone.
func (w *worker) remove(t *testing.T) {
	t.Helper()

	w.Scale(t, pool, 0)
	w.AwaitRunningWithin(t, bootLimit, 0)
	w.RequireGone(t, w.machine.Name)
}

// instance returns the VirtualMachineInstance of the worker.
func (w *worker) instance(t *testing.T) *kubevirtv1.VirtualMachineInstance {
	t.Helper()

	found, err := w.KubeVirt.KubevirtV1().VirtualMachineInstances(w.ProviderNamespace).Get(t.Context(), w.machine.Name, metav1.GetOptions{})
	require.NoError(t, err)

	return found
}

// logConsole writes the end of the guest's console to the output of a failed test.
func (w *worker) logConsole(t *testing.T) {
	t.Helper()

	if !t.Failed() || w.machine == nil {
		return
	}

	info, known := harness.Lab().Guests.Find(w.machine.Name)
	if !known {
		t.Log("the guest was never started")

		return
	}

	data, err := os.ReadFile(filepath.Clean(info.Console))
	t.Logf("console %s: %v\n%s", info.Console, err, data[max(0, len(data)-4000):])
}

// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

//go:build node

package node

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/node"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/node/images"
)

// pool is the name of a test's only worker pool.
const pool = "counter"

// worker is a Machine on a real node, whose guest counts on its console.
type worker struct {
	*harness.Shoot

	machine *v1alpha1.Machine
	began   time.Time
}

// newWorker creates a pool of one Machine whose guest counts on its console, and returns when the Machine exists.
func newWorker(t *testing.T) *worker {
	t.Helper()

	return newMachine(t, noUserData, counterSpec)
}

// counterSpec returns the ProviderSpec of the counting guest on a container disk, with which KubeVirt starts it once.
func counterSpec(t *testing.T, s *harness.Shoot) []byte {
	t.Helper()

	return specWith(t, s, fmt.Sprintf(`{"containerDisk":{"image":%q,"imagePullPolicy":"IfNotPresent"}}`, images.Counter), 0)
}

// importedSpec returns the ProviderSpec of the counting guest on a volume with an access mode, with which KubeVirt always starts it.
func importedSpec(mode corev1.PersistentVolumeAccessMode, gracePeriod int) func(*testing.T, *harness.Shoot) []byte {
	return func(t *testing.T, s *harness.Shoot) []byte {
		t.Helper()

		return specWith(t, s, fmt.Sprintf(`{"source":{"http":{"url":%q}},"storage":{"accessModes":[%q],"resources":{"requests":{"storage":"16Mi"}}}}`,
			serveCounter(t), mode), gracePeriod)
	}
}

// specWith returns the ProviderSpec of a counting guest, which is killed after a grace period, in seconds, since it does not shut down. Only
// this binding of the pod network can migrate.
func specWith(t *testing.T, s *harness.Shoot, root string, gracePeriod int) []byte {
	t.Helper()

	return harness.MergeFields(t, s.Spec(node.Zone, root), fmt.Sprintf(`{"memory":{"guest":"128Mi"},"networks":[{"pod":{},"masquerade":{}}],
		"disablePreAllocatedDataVolumes":true,
		"virtualMachineTemplate":{"spec":{"template":{"spec":{"terminationGracePeriodSeconds":%d}}}}}`, gracePeriod))
}

// newMachine creates a pool of one Machine, and returns when the Machine exists.
func newMachine(
	t *testing.T, userData func(*testing.T, *harness.Shoot) string, spec func(*testing.T, *harness.Shoot) []byte,
) *worker {
	t.Helper()
	record(t)

	w := &worker{Shoot: harness.NewShoot(t), began: time.Now()}
	w.applySecrets(t, userData(t, w.Shoot))
	// The bootstrap token is valid for the creation timeout.
	w.RunControllers(t, "--machine-creation-timeout=45m", "--machine-health-timeout=45m")
	w.AddPool(t, pool, 1, spec(t, w.Shoot))

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

// applySecrets creates the Secrets to which the classes of harness.AddPool refer.
func (w *worker) applySecrets(t *testing.T, userData string) {
	t.Helper()

	for name, data := range map[string]map[string][]byte{
		"cloudprovider":           {"kubeconfig": w.ProviderKubeconfig},
		"example-worker-userdata": {"userData": []byte(userData)},
	} {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data}
		_, err := w.Target.CoreV1().Secrets(w.Namespace).Create(t.Context(), secret, metav1.CreateOptions{})
		require.NoError(t, err)
	}
}

// awaitRunning waits until QEMU runs, and returns the node.
func (w *worker) awaitRunning(t *testing.T) string {
	t.Helper()

	var instance *kubevirtv1.VirtualMachineInstance

	harness.Eventually(t, "the VirtualMachineInstance runs", func(ctx context.Context) (bool, error) {
		var err error

		instance, err = w.KubeVirt.KubevirtV1().VirtualMachineInstances(w.ProviderNamespace).Get(ctx, w.machine.Name, metav1.GetOptions{})

		require.NotEqual(t, kubevirtv1.Failed, instance.Status.Phase, "%+v", instance.Status.Conditions)

		return err == nil && instance.Status.Phase == kubevirtv1.Running, err
	})
	t.Logf("%s runs on %s, %.0f s after its Machine was requested", instance.Name, instance.Status.NodeName, time.Since(w.began).Seconds())

	return instance.Status.NodeName
}

// instance returns the VirtualMachineInstance of the worker.
func (w *worker) instance(t *testing.T) *kubevirtv1.VirtualMachineInstance {
	t.Helper()

	found, err := w.KubeVirt.KubevirtV1().VirtualMachineInstances(w.ProviderNamespace).Get(t.Context(), w.machine.Name, metav1.GetOptions{})
	require.NoError(t, err)

	return found
}

// nodes returns the names of the provider nodes that report a container runtime.
func (w *worker) nodes(t *testing.T) []string {
	t.Helper()

	list, err := w.Kube.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)

	var names []string

	for _, found := range list.Items {
		if strings.HasPrefix(found.Status.NodeInfo.ContainerRuntimeVersion, "containerd://") {
			names = append(names, found.Name)
		}
	}

	return names
}

var errNoConsole = errors.New("no launcher runs on the instance's node")

// counts returns what the guest has counted on the console of its present launcher. The last line may be incomplete.
func (w *worker) counts(ctx context.Context) ([]int64, error) {
	console, err := w.consoleOf(ctx, w.machine.Name)

	return numbers(console), err
}

// isCounting reports whether a machine's guest has counted within the last seconds: the console of a guest that has ended can still be read.
func (w *worker) isCounting(ctx context.Context, machine string) (bool, error) {
	const seconds = 10

	console, err := w.consoleSince(ctx, machine, ptr.To[int64](seconds))

	return len(numbers(console)) > 0, err
}

// numbers returns those that a guest has counted on its console.
func numbers(console string) (counts []int64) {
	for line := range strings.Lines(console) {
		const digits = 4

		if line = strings.TrimSpace(line); len(line) != digits {
			continue
		}

		if count, err := strconv.ParseInt(line, 16, 64); err == nil {
			counts = append(counts, count)
		}
	}

	return counts
}

// consoleOf returns what a machine's guest has written to the console of its present launcher.
func (w *worker) consoleOf(ctx context.Context, machine string) (string, error) {
	return w.consoleSince(ctx, machine, nil)
}

// consoleSince returns the same of the last seconds, if a number is given.
func (w *worker) consoleSince(ctx context.Context, machine string, seconds *int64) (string, error) {
	instance, err := w.KubeVirt.KubevirtV1().VirtualMachineInstances(w.ProviderNamespace).Get(ctx, machine, metav1.GetOptions{})
	if err != nil {
		return "", err
	}

	client := w.Kube.CoreV1().Pods(w.ProviderNamespace)

	pods, err := client.List(ctx, metav1.ListOptions{LabelSelector: kubevirtv1.CreatedByLabel + "=" + string(instance.UID)})
	if err != nil {
		return "", err
	}

	for _, pod := range pods.Items {
		if pod.Spec.NodeName == instance.Status.NodeName && pod.Status.Phase == corev1.PodRunning {
			log, err := client.GetLogs(pod.Name, &corev1.PodLogOptions{Container: "guest-console-log", SinceSeconds: seconds}).DoRaw(ctx)

			return string(log), err
		}
	}

	return "", errNoConsole
}

// awaitCount waits until the guest has counted to a number on the console of its present launcher, and returns its last one.
func (w *worker) awaitCount(t *testing.T, number int64) (last int64) {
	t.Helper()

	harness.Eventually(t, fmt.Sprintf("the guest has counted to %d", number), func(ctx context.Context) (bool, error) {
		counts, err := w.counts(ctx)
		if err != nil || len(counts) == 0 {
			return false, err
		}

		last = counts[len(counts)-1]

		return last >= number, nil
	})

	return last
}

// lastCount returns the last number on the console of the present launcher.
func (w *worker) lastCount(t *testing.T) int64 {
	t.Helper()

	return w.awaitCount(t, 0)
}

// firstCount returns the first number on the console of the present launcher.
func (w *worker) firstCount(t *testing.T) (first int64) {
	t.Helper()

	harness.Eventually(t, "the guest counts", func(ctx context.Context) (bool, error) {
		counts, err := w.counts(ctx)
		if err != nil || len(counts) == 0 {
			return false, err
		}

		first = counts[0]

		return true, nil
	})

	return first
}

// remove deletes the worker, and returns when it is gone.
func (w *worker) remove(t *testing.T) {
	t.Helper()

	w.Scale(t, pool, 0)
	w.AwaitRunning(t, 0)
	w.RequireGone(t, w.machine.Name)
}

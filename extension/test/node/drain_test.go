// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

//go:build node

package node

import (
	"context"
	"fmt"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// requireMigration drains the provider node of a machine, and requires that the guest goes on: its kubelet renews its heartbeat afterwards, with the
// same boot, and the Node is ready all the time.
func requireMigration(t *testing.T, worker *corev1.Node, instance *kubevirtv1.VirtualMachineInstance) {
	t.Helper()

	lapses := watchReadiness(t, worker.Name)
	began := time.Now()

	command := exec.CommandContext(t.Context(), theSeed.Kubectl(), "--kubeconfig="+theSeed.Kubeconfigs().Provider, "drain", instance.Status.NodeName,
		"--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=10m")
	output, err := command.CombinedOutput()
	require.NoError(t, err, string(output))
	t.Logf("drained %s in %.0f s", instance.Status.NodeName, time.Since(began).Seconds())

	moved := &kubevirtv1.VirtualMachineInstance{}
	require.NoError(t, theSeed.Provider.Get(t.Context(), client.ObjectKeyFromObject(instance), moved))
	require.Equal(t, instance.UID, moved.UID)
	require.NotEqual(t, instance.Status.NodeName, moved.Status.NodeName)

	drained := time.Now()
	eventually(t, 5*time.Minute, func(ctx context.Context) (bool, string) {
		beat, err := heartbeat(ctx, worker.Name)

		return err == nil && beat.After(drained), fmt.Sprint(beat, err)
	})
	require.Zero(t, lapses(), "the Node was always ready")

	found := &corev1.Node{}
	require.NoError(t, theSeed.Target.Get(t.Context(), client.ObjectKeyFromObject(worker), found))
	require.Equal(t, worker.UID, found.UID)
	require.Equal(t, worker.Status.NodeInfo.BootID, found.Status.NodeInfo.BootID)
}

// heartbeat returns the time of the Node's last heartbeat, from its Lease.
func heartbeat(ctx context.Context, name string) (time.Time, error) {
	lease := &coordinationv1.Lease{}
	if err := theSeed.Target.Get(ctx, client.ObjectKey{Namespace: corev1.NamespaceNodeLease, Name: name}, lease); err != nil {
		return time.Time{}, err
	}

	return ptr.Deref(lease.Spec.RenewTime, metav1.MicroTime{}).Time, nil
}

// watchReadiness looks at a Node every second, until lapses is called, which returns how often it was not ready.
func watchReadiness(t *testing.T, name string) (lapses func() int) {
	t.Helper()

	ctx, stop := context.WithCancel(t.Context())
	count := make(chan int, 1)

	go func() {
		lapsed := 0

		_ = wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) { // ends with stop
			found := &corev1.Node{}
			if theSeed.Target.Get(ctx, client.ObjectKey{Name: name}, found) == nil && !isReady(found) {
				lapsed++
			}

			return false, nil
		})

		count <- lapsed
	}()

	return func() int {
		stop()

		return <-count
	}
}

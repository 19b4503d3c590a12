// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

//go:build node

package node

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

// recordStates logs, when the test ends, the states of all its machines and of the provider nodes, with their times.
func (w *worker) recordStates(t *testing.T) {
	t.Helper()

	const every = 300 * time.Millisecond

	ctx, cancel := context.WithCancel(t.Context())
	timeline := harness.NewTimeline()
	ended := make(chan struct{})

	go func() {
		defer close(ended)

		last := map[string]string{}

		wait.UntilWithContext(ctx, func(ctx context.Context) {
			seen, err := w.states(ctx)
			if err != nil {
				return
			}

			for object := range last {
				if _, exists := seen[object]; !exists {
					seen[object] = "gone"
				}
			}

			for object, state := range seen {
				if last[object] != state {
					timeline.Add("", "%-44s %s", object, state)
				}
			}

			last = seen
		}, every)
	}()

	t.Cleanup(func() {
		cancel()
		<-ended
		timeline.Print(t)
	})
}

// states returns the states of the machines and of the provider nodes.
func (w *worker) states(ctx context.Context) (map[string]string, error) {
	seen := map[string]string{}

	machines, err := w.MCM.MachineV1alpha1().Machines(w.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}

	for _, m := range machines.Items {
		seen["Machine "+m.Name] = fmt.Sprintf("%s, %s: %.120s", m.Status.CurrentStatus.Phase, m.Status.LastOperation.State, m.Status.LastOperation.Description)
	}

	if err := w.addProviderStates(ctx, seen); err != nil {
		return nil, err
	}

	nodes, err := w.Kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}

	for i := range nodes.Items {
		seen["provider node "+nodes.Items[i].Name] = fmt.Sprintf("ready: %t, cordoned: %t", isReady(&nodes.Items[i]), nodes.Items[i].Spec.Unschedulable)
	}

	return seen, nil
}

func (w *worker) addProviderStates(ctx context.Context, seen map[string]string) error {
	client := w.KubeVirt.KubevirtV1()

	vms, err := client.VirtualMachines(w.ProviderNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}

	for i := range vms.Items {
		seen["VM "+vms.Items[i].Name] = string(vms.Items[i].Status.PrintableStatus)
	}

	instances, err := client.VirtualMachineInstances(w.ProviderNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}

	for i := range instances.Items {
		seen["instance "+instances.Items[i].Name] = stateOf(&instances.Items[i])
	}

	migrations, err := client.VirtualMachineInstanceMigrations(w.ProviderNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}

	for i := range migrations.Items {
		seen["migration "+migrations.Items[i].Name] = string(migrations.Items[i].Status.Phase)
	}

	pods, err := w.Kube.CoreV1().Pods(w.ProviderNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}

	for i := range pods.Items {
		seen["pod "+pods.Items[i].Name] = fmt.Sprintf("%s, deleted: %t", pods.Items[i].Status.Phase, pods.Items[i].DeletionTimestamp != nil)
	}

	return nil
}

func stateOf(instance *kubevirtv1.VirtualMachineInstance) string {
	state := []string{fmt.Sprintf("%s on %q, %.4s", instance.Status.Phase, instance.Status.NodeName, instance.UID)}
	if instance.DeletionTimestamp != nil {
		state = append(state, "deleted")
	}

	if from := instance.Status.EvacuationNodeName; from != "" {
		state = append(state, "to leave "+from)
	}

	for _, condition := range instance.Status.Conditions {
		if condition.Type == kubevirtv1.VirtualMachineInstanceReady {
			state = append(state, fmt.Sprintf("Ready=%s %s", condition.Status, condition.Reason))
		}
	}

	for _, one := range instance.Status.Interfaces {
		state = append(state, one.IP)
	}

	return strings.Join(state, ", ")
}

// awaitInstance waits until the instance exists and is as wanted.
func (w *worker) awaitInstance(t *testing.T, what string, wanted func(*kubevirtv1.VirtualMachineInstance) bool) {
	t.Helper()

	begin := time.Now()

	harness.Eventually(t, what, func(ctx context.Context) (bool, error) {
		found, err := w.KubeVirt.KubevirtV1().VirtualMachineInstances(w.ProviderNamespace).Get(ctx, w.machine.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}

		return err == nil && wanted(found), err
	})
	t.Logf("%s: after %.0f s", what, time.Since(begin).Seconds())
}

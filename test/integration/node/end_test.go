// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

//go:build node

package node

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

// end is what was observed of a worker's deletion.
type end struct {
	podLeft     bool      // the pod still existed when the VirtualMachineInstance was deleted
	asked, off  time.Time // the deletion of the VirtualMachineInstance, and its final phase
	phase       kubevirtv1.VirtualMachineInstancePhase
	kubeletSaid string // the message of the Node's condition Ready when it became false
}

// requireGracefulEnd deletes the Machine, and requires that its pod is drained first, that the operating system
// shuts down within the grace period, and that nothing is left.
func (w *worker) requireGracefulEnd(t *testing.T) {
	t.Helper()

	observed := w.observeEnd(t)
	w.Scale(t, pool, 0)
	harness.Within(t, bootLimit, "the Machine is gone", func(ctx context.Context) (bool, error) {
		_, err := w.MCM.MachineV1alpha1().Machines(w.Namespace).Get(ctx, w.machine.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return true, nil
		}

		return false, err
	})

	e := observed()
	require.Equal(t, kubevirtv1.Succeeded, e.phase, "Failed means that the guest was killed")
	require.False(t, e.podLeft, "the pod is evicted, and its containers end, before the machine: %+v", e)
	require.Contains(t, e.kubeletSaid, "node is shutting down", "kubelet has noticed the shutdown")

	t.Logf("the guest has shut down %.0f s after it was asked to", e.off.Sub(e.asked).Seconds())

	_, err := w.Target.CoreV1().Nodes().Get(t.Context(), w.machine.Name, metav1.GetOptions{})
	require.True(t, apierrors.IsNotFound(err), "%v", err)
}

// observeEnd watches the worker's Node and VirtualMachineInstance. The returned function waits for
// the end of the instance.
func (w *worker) observeEnd(t *testing.T) func() end {
	t.Helper()

	named := func(name string) metav1.ListOptions {
		return metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()}
	}
	nodes, err := w.Target.CoreV1().Nodes().Watch(t.Context(), named(w.machine.Name))
	require.NoError(t, err)
	instances, err := w.KubeVirt.KubevirtV1().VirtualMachineInstances(w.ProviderNamespace).Watch(t.Context(), named(w.machine.Name))
	require.NoError(t, err)

	podExists := func() bool {
		_, err := w.Target.CoreV1().Pods(w.Namespace).Get(t.Context(), podName, metav1.GetOptions{})

		return !apierrors.IsNotFound(err)
	}
	ended := make(chan end, 1)

	go func() { ended <- watchEnd(nodes, instances, podExists) }()

	return func() end {
		select {
		case e := <-ended:
			return e
		case <-time.After(time.Minute): // the Machine is gone, and hence its instance
			require.Fail(t, "the end of the instance was not observed")

			return end{}
		}
	}
}

// watchEnd returns when the instance is gone, or its watch has ended.
func watchEnd(nodes, instances watch.Interface, podExists func() bool) (e end) {
	defer nodes.Stop()
	defer instances.Stop()

	nodeEvents := nodes.ResultChan()

	for {
		select {
		case event, open := <-nodeEvents:
			if !open {
				nodeEvents = nil
			}

			e.seeNode(event)
		case event, open := <-instances.ResultChan():
			if !open || event.Type == watch.Deleted {
				return e
			}

			e.seeInstance(event, podExists)
		}
	}
}

func (e *end) seeNode(event watch.Event) {
	node, ok := event.Object.(*corev1.Node)
	if !ok {
		return
	}

	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionFalse {
			e.kubeletSaid = condition.Message
		}
	}
}

func (e *end) seeInstance(event watch.Event, podExists func() bool) {
	instance, ok := event.Object.(*kubevirtv1.VirtualMachineInstance)
	if !ok {
		return
	}

	if instance.DeletionTimestamp != nil && e.asked.IsZero() {
		e.asked = time.Now()
		e.podLeft = podExists()
	}

	if instance.IsFinal() && e.off.IsZero() {
		e.off = time.Now()
		e.phase = instance.Status.Phase
	}
}

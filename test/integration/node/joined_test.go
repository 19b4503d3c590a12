// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

//go:build node

package node

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

// letGuestsJoin keeps a Node for each machine of the shoot, and runs the pods of that Node, as a kubelet in its guest would, for as long as that
// guest counts. It ends with the test.
func (w *worker) letGuestsJoin(t *testing.T) {
	t.Helper()

	const every = 3 * time.Second

	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})

	go func() {
		defer close(ended)

		wait.UntilWithContext(ctx, func(ctx context.Context) {
			machines, err := w.MCM.MachineV1alpha1().Machines(w.Namespace).List(ctx, metav1.ListOptions{})
			if err != nil {
				return
			}

			for i := range machines.Items {
				_ = w.letJoin(ctx, machines.Items[i].Name) // after an error, the next attempt follows
			}
		}, every)
	}()

	t.Cleanup(func() {
		cancel()
		<-ended
	})
}

// letJoin does the work of the kubelet of a machine whose guest counts. The console of a guest that ends must not keep the others waiting.
func (w *worker) letJoin(ctx context.Context, name string) error {
	const limit = 5 * time.Second

	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()

	if counting, err := w.isCounting(ctx, name); err != nil || !counting {
		return err
	}

	for _, do := range []func(context.Context, string) error{w.register, w.heartbeat, w.runPods} {
		if err := do(ctx, name); err != nil {
			return err
		}
	}

	return nil
}

// heartbeat is what a kubelet does every ten seconds.
func (w *worker) heartbeat(ctx context.Context, name string) error {
	leases := w.Target.CoordinationV1().Leases(corev1.NamespaceNodeLease)

	lease, err := leases.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}}
		lease, err = leases.Create(ctx, lease, metav1.CreateOptions{})
	}

	if err != nil {
		return err
	}

	lease.Spec = coordinationv1.LeaseSpec{HolderIdentity: &name, RenewTime: ptr.To(metav1.NowMicro())}
	_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})

	return err
}

// register is what a kubelet does at its start, and when its Node is not ready.
func (w *worker) register(ctx context.Context, name string) error {
	nodes := w.Target.CoreV1().Nodes()

	registered, err := nodes.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		registered, err = nodes.Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Name:   name,
			Labels: map[string]string{corev1.LabelHostname: name},
		}}, metav1.CreateOptions{})
	}

	if err != nil || isReady(registered) {
		return err
	}

	registered.Status.Conditions = []corev1.NodeCondition{{
		Type:               corev1.NodeReady,
		Status:             corev1.ConditionTrue,
		Reason:             "KubeletReady",
		LastHeartbeatTime:  metav1.Now(),
		LastTransitionTime: metav1.Now(),
	}}
	registered.Status.Allocatable = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("10")}
	_, err = nodes.UpdateStatus(ctx, registered, metav1.UpdateOptions{})

	return err
}

// runPods is what a kubelet does with the pods of its Node: they are soon ready, and end when they are deleted.
func (w *worker) runPods(ctx context.Context, node string) error {
	client := w.Target.CoreV1().Pods(w.Namespace)
	ready := corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue}

	pods, err := client.List(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("spec.nodeName", node).String()})
	if err != nil {
		return err
	}

	for i := range pods.Items {
		pod := &pods.Items[i]

		switch {
		case pod.DeletionTimestamp != nil:
			err = errors.Join(err, client.Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}))
		case !slices.Contains(pod.Status.Conditions, ready): // the control plane changes it when the Node is not ready
			pod.Status.Phase = corev1.PodRunning
			pod.Status.Conditions = slices.DeleteFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == ready.Type })
			pod.Status.Conditions = append(pod.Status.Conditions, ready)
			_, failed := client.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
			err = errors.Join(err, failed)
		}
	}

	return err
}

// awaitMachine waits until a pool has a Machine that is Running, and returns it.
func (w *worker) awaitMachine(t *testing.T, pool string) *v1alpha1.Machine {
	t.Helper()

	var found *v1alpha1.Machine

	harness.Eventually(t, "a Machine of "+pool+" is Running", func(ctx context.Context) (bool, error) {
		list, err := w.MCM.MachineV1alpha1().Machines(w.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "name=" + pool})
		if err != nil || len(list.Items) != 1 {
			return false, err
		}

		found = &list.Items[0]

		return found.Status.CurrentStatus.Phase == v1alpha1.MachineRunning, nil
	})

	return found
}

// events returns the messages of the Events on a Machine, by their reasons.
func (w *worker) events(ctx context.Context, machine string) (map[string]string, error) {
	list, err := w.Target.CoreV1().Events(w.Namespace).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + machine})
	if err != nil {
		return nil, err
	}

	found := map[string]string{}
	for i := range list.Items {
		found[list.Items[i].Reason] = list.Items[i].Message
	}

	return found, nil
}

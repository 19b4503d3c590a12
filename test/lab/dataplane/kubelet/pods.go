// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/behaviour"
)

// workloads simulates the programs in a cluster's pods. It is the only difference between the
// kubelets of the provider and the target cluster.
type workloads interface {
	// Startable returns why the containers cannot start yet: a waiting reason and message,
	// both empty if they can.
	Startable(ctx context.Context, pod *corev1.Pod) (reason, message string, err error)
	// Outcome returns the outcome of running containers.
	Outcome(pod *corev1.Pod) Outcome
	// Stoppable returns how long a terminating pod still needs.
	Stoppable(pod *corev1.Pod) time.Duration
	// Address assigns a pod its IP.
	Address(pod *corev1.Pod) string
}

// PodAgent simulates the pod side of the kubelets of one cluster.
type PodAgent struct {
	Client    kubernetes.Interface
	Pods      corelisters.PodLister
	Runs      func(node string) bool // reports whether a node is simulated and up
	Workloads workloads
	Now       func() time.Time
}

// Reconcile advances one pod of a live node.
func (k *PodAgent) Reconcile(ctx context.Context, key string) (time.Duration, error) {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return 0, fmt.Errorf("split key %q: %w", key, err)
	}
	pod, err := k.Pods.Pods(namespace).Get(name)
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read pod %s: %w", key, err)
	}
	if !k.Runs(pod.Spec.NodeName) || behaviour.IsStuck(pod) {
		return 0, nil
	}
	if pod.DeletionTimestamp != nil {
		return k.terminate(ctx, pod)
	}
	desired := pod.DeepCopy()
	after, err := k.advance(ctx, desired)
	if err != nil || equality.Semantic.DeepEqual(pod.Status, desired.Status) {
		return after, err
	}
	if _, err := k.Client.CoreV1().Pods(namespace).UpdateStatus(ctx, desired, metav1.UpdateOptions{}); err != nil {
		return 0, fmt.Errorf("update status of pod %s: %w", key, err)
	}
	return after, nil
}

// advance updates the status of a pod that is not terminating, and returns when to reconcile again.
func (k *PodAgent) advance(ctx context.Context, pod *corev1.Pod) (time.Duration, error) {
	now := k.Now()
	switch {
	case IsFinished(pod):
		return 0, nil
	case pod.Status.Phase != corev1.PodRunning:
		return k.start(ctx, pod, now)
	}
	switch state := containerState(pod); {
	case state.Terminated != nil:
		setCrashLoop(pod, now)
		return behaviour.PollInterval, nil
	case state.Waiting != nil:
		left := behaviour.Remaining(now, lastExit(pod), crashBackOff(pod))
		if left == 0 {
			setRunning(pod, pod.Status.PodIP, now)
			return k.Workloads.Outcome(pod).After, nil
		}
		return left, nil
	default:
		return k.observe(pod, now), nil
	}
}

// start runs the containers, or reports why they cannot start yet.
func (k *PodAgent) start(ctx context.Context, pod *corev1.Pod, now time.Time) (time.Duration, error) {
	reason, message, err := k.Workloads.Startable(ctx, pod)
	if err != nil {
		return 0, err
	}
	if reason != "" {
		setWaiting(pod, reason, message, now)
		return behaviour.PollInterval, k.warn(ctx, pod, reason, message, now)
	}
	ip := pod.Status.PodIP
	if ip == "" {
		ip = k.Workloads.Address(pod)
	}
	setRunning(pod, ip, now)
	return k.Workloads.Outcome(pod).After, nil
}

// observe ends containers that have exited and keeps the other containers ready.
func (k *PodAgent) observe(pod *corev1.Pod, now time.Time) time.Duration {
	result := k.Workloads.Outcome(pod)
	if !result.Exited {
		setReadiness(pod, true, now)
		return sooner(result.After, gateDelay(pod, now))
	}
	setExited(pod, result.Code, result.Message, now)
	return behaviour.PollInterval
}

// sooner returns the shorter of two delays, where zero means never.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || (b > 0 && b < a) {
		return b
	}
	return a
}

// terminate removes a pod whose containers have stopped, as kubelet does with a final
// delete without grace period.
func (k *PodAgent) terminate(ctx context.Context, pod *corev1.Pod) (time.Duration, error) {
	if pod.Status.Phase == corev1.PodRunning {
		if left := k.Workloads.Stoppable(pod); left > 0 {
			return left, nil
		}
	}
	options := metav1.NewDeleteOptions(0)
	options.Preconditions = metav1.NewUIDPreconditions(string(pod.UID))
	err := k.Client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, *options)
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return 0, fmt.Errorf("delete pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return 0, nil
}

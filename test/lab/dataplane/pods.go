package dataplane

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
)

// workloads simulates the programs in a cluster's pods. It is the only difference between the
// kubelets of the provider and the target cluster.
type workloads interface {
	// startable returns why the containers cannot start yet: a waiting reason and message,
	// both empty if they can.
	startable(ctx context.Context, pod *corev1.Pod) (reason, message string, err error)
	// outcome returns the outcome of running containers.
	outcome(pod *corev1.Pod) outcome
	// stoppable returns how long a terminating pod still needs.
	stoppable(pod *corev1.Pod) time.Duration
	// address assigns a pod its IP.
	address(pod *corev1.Pod) string
}

// kubelet simulates the pod side of the kubelets of one cluster.
type kubelet struct {
	client    kubernetes.Interface
	pods      corelisters.PodLister
	runs      func(node string) bool // reports whether a node is simulated and up
	workloads workloads
	now       func() time.Time
}

// reconcile advances one pod of a live node.
func (k *kubelet) reconcile(ctx context.Context, key string) (time.Duration, error) {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return 0, fmt.Errorf("split key %q: %w", key, err)
	}
	pod, err := k.pods.Pods(namespace).Get(name)
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read pod %s: %w", key, err)
	}
	if !k.runs(pod.Spec.NodeName) || isStuck(pod) {
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
	if _, err := k.client.CoreV1().Pods(namespace).UpdateStatus(ctx, desired, metav1.UpdateOptions{}); err != nil {
		return 0, fmt.Errorf("update status of pod %s: %w", key, err)
	}
	return after, nil
}

// advance updates the status of a pod that is not terminating, and returns when to reconcile again.
func (k *kubelet) advance(ctx context.Context, pod *corev1.Pod) (time.Duration, error) {
	now := k.now()
	switch {
	case isFinished(pod):
		return 0, nil
	case pod.Status.Phase != corev1.PodRunning:
		return k.start(ctx, pod, now)
	}
	switch state := containerState(pod); {
	case state.Terminated != nil:
		setCrashLoop(pod, now)
		return pollInterval, nil
	case state.Waiting != nil:
		left := remaining(now, lastExit(pod), crashBackOff(pod))
		if left == 0 {
			setRunning(pod, pod.Status.PodIP, now)
			return k.workloads.outcome(pod).after, nil
		}
		return left, nil
	default:
		return k.observe(pod, now), nil
	}
}

// start runs the containers, or reports why they cannot start yet.
func (k *kubelet) start(ctx context.Context, pod *corev1.Pod, now time.Time) (time.Duration, error) {
	reason, message, err := k.workloads.startable(ctx, pod)
	if err != nil {
		return 0, err
	}
	if reason != "" {
		setWaiting(pod, reason, message, now)
		return pollInterval, k.warn(ctx, pod, reason, message, now)
	}
	ip := pod.Status.PodIP
	if ip == "" {
		ip = k.workloads.address(pod)
	}
	setRunning(pod, ip, now)
	return k.workloads.outcome(pod).after, nil
}

// observe ends containers that have exited and keeps the other containers ready.
func (k *kubelet) observe(pod *corev1.Pod, now time.Time) time.Duration {
	result := k.workloads.outcome(pod)
	if !result.exited {
		setReadiness(pod, true, now)
		return result.after
	}
	setExited(pod, result.code, result.message, now)
	return pollInterval
}

// terminate removes a pod whose containers have stopped, as kubelet does with a final
// delete without grace period.
func (k *kubelet) terminate(ctx context.Context, pod *corev1.Pod) (time.Duration, error) {
	if pod.Status.Phase == corev1.PodRunning {
		if left := k.workloads.stoppable(pod); left > 0 {
			return left, nil
		}
	}
	options := metav1.NewDeleteOptions(0)
	options.Preconditions = metav1.NewUIDPreconditions(string(pod.UID))
	err := k.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, *options)
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return 0, fmt.Errorf("delete pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return 0, nil
}

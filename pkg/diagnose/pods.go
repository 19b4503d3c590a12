// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

const (
	// reasonNodeSilent is the reason of signs that a provider node does not respond.
	reasonNodeSilent = "NodeSilent"
	// nodeRemedy is the way to give up a node that Kubernetes supports: it removes a pod whose
	// kubelet does not respond only if the Node is deleted or marked as out of service
	// (k8s.io/kubernetes/pkg/controller/podgc).
	nodeRemedy = "repair the provider node; if it is off permanently, delete its Node object or taint it " +
		"node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"
)

// DeadNode returns the failure of a provider node that does not respond, from the evidence in a
// machine's pods; nil if there is none.
func DeadNode(pods []corev1.Pod, now time.Time) *spi.Error {
	for i := range pods {
		if words, since := unresponsiveNode(&pods[i]); words != "" && now.After(since) {
			return &spi.Error{Kind: spi.ErrUnavailable, Message: words, Remedy: nodeRemedy}
		}
	}

	return nil
}

func ofPods(pods []corev1.Pod) []sign {
	var signs []sign

	for i := range pods {
		if words, since := unresponsiveNode(&pods[i]); words != "" {
			signs = append(signs, sign{
				from:    launcherPod,
				reason:  reasonNodeSilent,
				message: words,
				since:   since,
				object:  named("Pod", &pods[i]),
				kind:    statusPhase,
				status:  string(pods[i].Status.Phase),
			})
		}
	}

	return signs
}

// unresponsiveNode returns the evidence that a pod's node does not respond, and since when. It
// reads the state of the pod, not events; the Node itself may not be readable. A live kubelet
// starts a pod within seconds, and terminates it within its grace period.
func unresponsiveNode(pod *corev1.Pod) (words string, since time.Time) {
	node := pod.Spec.NodeName
	if node == "" {
		return "", time.Time{}
	}

	scheduled := podCondition(pod, corev1.PodScheduled)
	marked := markedNotReady(pod)

	switch {
	case pod.Status.Phase == corev1.PodPending && pod.Status.StartTime == nil && scheduled != nil:
		return fmt.Sprintf("kubelet on provider node %s has not started pod %s", node, pod.Name), scheduled.LastTransitionTime.Time
	case pod.DeletionTimestamp != nil && len(pod.Finalizers) == 0:
		// The deletion timestamp is the end of the pod's grace period.
		return fmt.Sprintf("kubelet on provider node %s has not terminated pod %s in time", node, pod.Name), pod.DeletionTimestamp.Time
	case marked != nil:
		return fmt.Sprintf("provider node %s, on which pod %s runs, is not ready", node, pod.Name), marked.LastTransitionTime.Time
	default:
		return "", time.Time{}
	}
}

// markedNotReady returns the condition by which the node lifecycle controller marks the pods of a
// node that does not respond (k8s.io/kubernetes/pkg/controller/util/node/controller_utils.go).
// Kubelet always sets a reason if a pod is not ready although its containers are.
func markedNotReady(pod *corev1.Pod) *corev1.PodCondition {
	ready := podCondition(pod, corev1.PodReady)
	containers := podCondition(pod, corev1.ContainersReady)
	if ready == nil || containers == nil || ready.Reason != "" {
		return nil
	}

	if ready.Status != corev1.ConditionFalse || containers.Status != corev1.ConditionTrue {
		return nil
	}

	return ready
}

func podCondition(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == kind {
			return &pod.Status.Conditions[i]
		}
	}

	return nil
}

package dataplane

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// warningInterval is how often a kubelet repeats a warning at most.
const warningInterval = 2 * time.Second

// warn records why a pod's containers do not start, as kubelets do: one Event per reason, which counts.
func (k *kubelet) warn(ctx context.Context, pod *corev1.Pod, waiting, message string, now time.Time) error {
	reason := eventReason(waiting)
	if k.client == nil || message == "" || reason == "" {
		return nil
	}
	events, name := k.client.CoreV1().Events(pod.Namespace), pod.Name+"."+reason
	event, err := events.Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		_, err = events.Create(ctx, newWarning(pod, name, reason, message, now), metav1.CreateOptions{})
	case err != nil:
	case now.Sub(event.LastTimestamp.Time) < warningInterval:
		return nil
	default:
		event.Count++
		event.LastTimestamp, event.Message = metav1.NewTime(now), eventMessage(reason, message)
		_, err = events.Update(ctx, event, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("record event %s of pod %s/%s: %w", reason, pod.Namespace, pod.Name, err)
	}
	return nil
}

func newWarning(pod *corev1.Pod, name, reason, message string, now time.Time) *corev1.Event {
	at := metav1.NewTime(now)
	return &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: pod.Namespace},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID,
		},
		Reason: reason, Message: eventMessage(reason, message), Type: corev1.EventTypeWarning,
		Source:         corev1.EventSource{Component: "kubelet", Host: pod.Spec.NodeName},
		FirstTimestamp: at, LastTimestamp: at, Count: 1,
	}
}

// eventReason translates why a container waits into the reason of kubelet's event.
func eventReason(waiting string) string {
	switch waiting {
	case reasonContainerCreating:
		return "FailedMount"
	case reasonErrImagePull:
		return "Failed"
	case reasonImagePullBackOff:
		return "BackOff"
	default:
		return ""
	}
}

func eventMessage(reason, message string) string {
	if reason == "FailedMount" {
		return "MountVolume.SetUp failed for volume: " + message
	}
	return message
}

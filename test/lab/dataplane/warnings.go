package dataplane

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// warningInterval is the minimum time between repetitions of a warning.
const warningInterval = 2 * time.Second

// warn records why a pod's containers do not start, as kubelets do: one Event
// per reason, with a count.
func (k *kubelet) warn(ctx context.Context, pod *corev1.Pod, waiting, message string, now time.Time) error {
	reason := eventReason(waiting)
	if k.client == nil || message == "" || reason == "" {
		return nil
	}
	return recordWarning(ctx, k.client, now, &corev1.Event{
		InvolvedObject: corev1.ObjectReference{
			APIVersion: "v1",
			Kind:       "Pod",
			Namespace:  pod.Namespace,
			Name:       pod.Name,
			UID:        pod.UID,
		},
		Reason:  reason,
		Message: eventMessage(reason, message),
		Source:  corev1.EventSource{Component: "kubelet", Host: pod.Spec.NodeName},
	})
}

// recordWarning records a warning about an object: one Event per object and reason, with a count.
func recordWarning(ctx context.Context, client kubernetes.Interface, now time.Time, said *corev1.Event) error {
	object := said.InvolvedObject
	said.Namespace = object.Namespace
	said.Name = object.Name + "." + said.Reason
	said.Type = corev1.EventTypeWarning
	events := client.CoreV1().Events(object.Namespace)
	event, err := events.Get(ctx, said.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		said.FirstTimestamp = metav1.NewTime(now)
		said.LastTimestamp = metav1.NewTime(now)
		said.Count = 1
		_, err = events.Create(ctx, said, metav1.CreateOptions{})
	case err != nil:
	case now.Sub(event.LastTimestamp.Time) < warningInterval:
		return nil
	default:
		event.Count++
		event.LastTimestamp = metav1.NewTime(now)
		event.Message = said.Message
		_, err = events.Update(ctx, event, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("record event %s of %s %s/%s: %w", said.Reason, object.Kind, object.Namespace, object.Name, err)
	}
	return nil
}

// eventReason maps a container's waiting reason to the reason of kubelet's event.
func eventReason(waiting string) string {
	switch waiting {
	case reasonContainerCreating:
		return "FailedMount"
	case reasonNoSandbox:
		return "FailedCreatePodSandBox"
	case reasonErrImagePull, reasonConfigError:
		return "Failed"
	case reasonImagePullBackOff:
		return "BackOff"
	default:
		return ""
	}
}

func eventMessage(reason, message string) string {
	switch reason {
	case "FailedMount":
		return "MountVolume.SetUp failed for volume: " + message
	case "FailedCreatePodSandBox":
		return "Failed to create pod sandbox: " + message
	default:
		return message
	}
}

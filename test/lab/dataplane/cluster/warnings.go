// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

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

// RecordWarning records a warning about an object: one Event per object and reason, with a count.
func RecordWarning(ctx context.Context, client kubernetes.Interface, now time.Time, said *corev1.Event) error {
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

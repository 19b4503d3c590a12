// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/behaviour"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/cluster"
)

// Startup finds the reasons why kubelets cannot start the containers of the provider cluster's pods.
type Startup struct {
	Provider *cluster.Provider
	Now      func() time.Time
}

// Startable returns why the containers of a pod cannot start yet: a waiting reason and message, both empty if they can.
func (s *Startup) Startable(ctx context.Context, pod *corev1.Pod) (string, string, error) {
	missing, err := s.missingVolume(ctx, pod)
	if err != nil || missing != "" {
		return reasonContainerCreating, missing, err
	}
	missing, err = s.missingNetwork(ctx, pod)
	if err != nil || missing != "" {
		return reasonNoSandbox, missing, err
	}
	image := unpullableImage(pod)
	if image == "" {
		missing, err = s.missingVariable(ctx, pod)
		if missing == "" {
			return "", "", err
		}
		return reasonConfigError, missing, err
	}
	since := pod.CreationTimestamp.Time
	if pod.Status.StartTime != nil {
		since = pod.Status.StartTime.Time
	}
	if (s.Now().Sub(since)/imagePullBackOff)%2 == 1 {
		return reasonImagePullBackOff, fmt.Sprintf("Back-off pulling image %q", image), nil
	}
	message := fmt.Sprintf("failed to pull and unpack image %q: failed to resolve reference %q: not found", image, image)
	return reasonErrImagePull, message, nil
}

// missingVolume describes the first volume whose object is missing or whose claim
// is unbound, or returns "".
func (s *Startup) missingVolume(ctx context.Context, pod *corev1.Pod) (string, error) {
	core := s.Provider.Client.CoreV1()
	for _, volume := range pod.Spec.Volumes {
		var err error
		switch {
		case volume.Secret != nil && !ptr.Deref(volume.Secret.Optional, false):
			_, err = core.Secrets(pod.Namespace).Get(ctx, volume.Secret.SecretName, metav1.GetOptions{})
		case volume.ConfigMap != nil && !ptr.Deref(volume.ConfigMap.Optional, false):
			_, err = core.ConfigMaps(pod.Namespace).Get(ctx, volume.ConfigMap.Name, metav1.GetOptions{})
		case volume.PersistentVolumeClaim != nil:
			name := volume.PersistentVolumeClaim.ClaimName
			claim, claimErr := s.Provider.Claims.PersistentVolumeClaims(pod.Namespace).Get(name)
			if claimErr == nil && claim.Status.Phase != corev1.ClaimBound {
				return fmt.Sprintf("persistentvolumeclaim %q is not bound", name), nil
			}
			err = claimErr
		}
		if apierrors.IsNotFound(err) {
			return err.Error(), nil
		}
		if err != nil {
			return "", fmt.Errorf("volume %s of pod %s/%s: %w", volume.Name, pod.Namespace, pod.Name, err)
		}
	}
	return "", nil
}

// missingVariable describes the first environment variable whose object is missing, or returns "".
func (s *Startup) missingVariable(ctx context.Context, pod *corev1.Pod) (string, error) {
	core := s.Provider.Client.CoreV1()
	for _, container := range pod.Spec.Containers {
		for _, variable := range container.Env {
			var err error
			switch from := variable.ValueFrom; {
			case from == nil:
			case from.SecretKeyRef != nil && !ptr.Deref(from.SecretKeyRef.Optional, false):
				_, err = core.Secrets(pod.Namespace).Get(ctx, from.SecretKeyRef.Name, metav1.GetOptions{})
			case from.ConfigMapKeyRef != nil && !ptr.Deref(from.ConfigMapKeyRef.Optional, false):
				_, err = core.ConfigMaps(pod.Namespace).Get(ctx, from.ConfigMapKeyRef.Name, metav1.GetOptions{})
			}
			if apierrors.IsNotFound(err) {
				return strings.Replace(strings.Replace(err.Error(), "secrets ", "secret ", 1), "configmaps ", "configmap ", 1), nil
			}
			if err != nil {
				return "", fmt.Errorf("variable %s of pod %s/%s: %w", variable.Name, pod.Namespace, pod.Name, err)
			}
		}
	}
	return "", nil
}

// unpullableImage returns an image of the pod that cannot be pulled, or "".
func unpullableImage(pod *corev1.Pod) string {
	for _, container := range pod.Spec.Containers {
		if behaviour.IsMissingImage(container.Image) || behaviour.HasFault(pod, behaviour.FaultImagePull) {
			return container.Image
		}
	}
	return ""
}

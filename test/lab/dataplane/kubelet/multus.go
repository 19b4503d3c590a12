// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// The annotations that name a pod's networks for Multus. The first one is a list in JSON.
const (
	networksAnnotation       = "k8s.v1.cni.cncf.io/networks"
	defaultNetworkAnnotation = "v1.multus-cni.io/default-network"
)

// podNetwork is an entry of a pod's networks.
type podNetwork struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// missingNetwork returns Multus' error about the first network of a pod that has no
// NetworkAttachmentDefinition, or "". Since 1.9, KubeVirt does not look the networks up before it
// creates the pod (gate ExternalNetResourceInjection, pkg/virt-controller/services/template.go).
func (s *Startup) missingNetwork(ctx context.Context, pod *corev1.Pod) (string, error) {
	networks, err := networksOf(pod)
	if err != nil {
		return "", err
	}
	for _, network := range networks {
		err := s.Provider.Client.CoreV1().RESTClient().Get().
			AbsPath("apis/k8s.cni.cncf.io/v1/namespaces", network.Namespace, "network-attachment-definitions", network.Name).Do(ctx).Error()
		if apierrors.IsNotFound(err) {
			return fmt.Sprintf(`plugin type="multus" failed (add): cannot find a network-attachment-definition (%s) in namespace (%s): %v`,
				network.Name, network.Namespace, err), nil
		}
		if err != nil {
			return "", fmt.Errorf("read network %s of pod %s/%s: %w", network.Name, pod.Namespace, pod.Name, err)
		}
	}
	return "", nil
}

// networksOf returns the networks of a pod's annotations, as KubeVirt writes them.
func networksOf(pod *corev1.Pod) ([]podNetwork, error) {
	var networks []podNetwork
	if list := pod.Annotations[networksAnnotation]; list != "" {
		if err := json.Unmarshal([]byte(list), &networks); err != nil {
			return nil, fmt.Errorf("decode networks of pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
	}
	if primary := pod.Annotations[defaultNetworkAnnotation]; primary != "" {
		namespace, name, _ := strings.Cut(primary, "/")
		networks = append(networks, podNetwork{Namespace: namespace, Name: name})
	}
	return networks, nil
}

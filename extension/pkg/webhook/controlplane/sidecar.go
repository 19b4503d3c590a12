// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"fmt"
	"slices"
	"strings"

	extensionswebhook "github.com/gardener/gardener/extensions/pkg/webhook"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/kubernetes"
)

// sidecar returns the driver's container: the one in kubernetes/gardener-sidecar, with the name,
// image, arguments and volume mounts of Gardener's generic sidecar. The arguments depend on the
// Shoot; those of the driver alone are added to them.
func sidecar(generic corev1.Container) (corev1.Container, error) {
	shipped, err := shippedSidecar()
	if err != nil {
		return corev1.Container{}, err
	}

	args := slices.Clone(generic.Args)

	for _, arg := range shipped.Args {
		if flag, _, _ := strings.Cut(arg, "="); extensionswebhook.StringWithPrefixIndex(args, flag+"=") < 0 {
			args = append(args, arg)
		}
	}

	shipped.Name = generic.Name
	shipped.Image = generic.Image
	shipped.Args = args
	shipped.VolumeMounts = generic.VolumeMounts

	return *shipped, nil
}

// shippedSidecar reads the container in kubernetes/gardener-sidecar.
func shippedSidecar() (*corev1.Container, error) {
	raw, err := kubernetes.Manifests.ReadFile("gardener-sidecar/container.yaml")
	if err != nil {
		return nil, err
	}

	deployment := &appsv1.Deployment{}
	if err := yaml.UnmarshalStrict(raw, deployment); err != nil {
		return nil, fmt.Errorf("read gardener-sidecar/container.yaml: %w", err)
	}

	return &deployment.Spec.Template.Spec.Containers[0], nil
}

// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providercluster

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1/validation"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// withMigratable returns the input with the knowledge whether the machine can be live-migrated.
func withMigratable(ctx context.Context, c *providerapi.Clients, in *spi.CreateMachineInput) *spi.CreateMachineInput {
	if !in.Evacuation {
		return in
	}

	known := *in
	known.Migratable = validation.IsMigratable(in.Spec, func(s *cdiv1beta1.StorageSpec) bool { return isShared(ctx, c, s) })

	return &known
}

// isShared reports whether CDI creates claims with ReadWriteMany. It is not known for the default storage class, whose
// name the driver may not read, and after an error: then the driver evacuates the machine.
func isShared(ctx context.Context, c *providerapi.Clients, requested *cdiv1beta1.StorageSpec) bool {
	profile, err := c.WithoutRetry().StorageProfiles().Get(ctx, ptr.Deref(requested.StorageClassName, ""))
	if err != nil || profile == nil {
		return false
	}

	modes, _ := v1alpha1.EffectiveModes(requested, profile)

	return slices.Contains(modes, corev1.ReadWriteMany)
}

// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"context"
	"slices"

	"github.com/gardener/gardener/extensions/pkg/controller/worker"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/workerpool"
)

// pool is a worker pool with the user data of its machines.
type pool struct {
	*workerpool.Pool

	userData []byte
}

// newPool resolves the references of a pool, and reads its user data. It reports errors of the
// configuration with the fields of the Shoot.
func (d *delegate) newPool(ctx context.Context, spec extensionsv1alpha1.WorkerPool) (*pool, field.ErrorList, error) {
	resolved, errs := d.shoot().Pool(spec, d.pathOf(spec.Name))
	userData, err := worker.FetchUserData(ctx, d.seed, d.worker.Namespace, spec)

	return &pool{Pool: resolved, userData: userData}, errs, err
}

// shoot returns the settings that all pools share.
func (d *delegate) shoot() *workerpool.Settings {
	return &workerpool.Settings{
		TechnicalID:      d.cluster.Shoot.Status.TechnicalID,
		UID:              string(d.cluster.Shoot.Status.UID),
		Region:           d.worker.Spec.Region,
		SSHPublicKey:     d.worker.Spec.SSHPublicKey,
		PodNetwork:       d.infrastructure.PodNetwork,
		Evacuation:       d.infrastructure.Evacuation,
		EvacuationDenied: d.infrastructure.EvacuationDenied,
		Networks:         d.infrastructure.Networks,
		Profile:          &d.cluster.CloudProfile.Spec,
		ProfileConfig:    &d.profile,
		ImagesInUse:      d.status.MachineImages,
	}
}

// pathOf returns the path of a pool in the Shoot.
func (d *delegate) pathOf(name string) *field.Path {
	workers := field.NewPath("spec", "provider", "workers")

	i := slices.IndexFunc(d.cluster.Shoot.Spec.Provider.Workers, func(w gardencorev1beta1.Worker) bool { return w.Name == name })
	if i < 0 {
		return workers.Key(name)
	}

	return workers.Index(i)
}

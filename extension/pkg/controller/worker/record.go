// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/providercluster"
)

// attemptTimeout bounds the deletion of golden images if none was recorded.
const attemptTimeout = time.Minute

// record records in the status that golden images may exist in the provider cluster. machine-controller-manager
// creates the other objects, for classes in the seed.
func (d *delegate) record(ctx context.Context) error {
	if d.isRecorded() {
		return nil
	}

	before := d.worker.DeepCopy()
	d.worker.Status.ProviderStatus = &runtime.RawExtension{Object: &api.WorkerStatus{TypeMeta: api.TypeMeta("WorkerStatus")}}

	if err := d.seed.Status().Patch(ctx, d.worker, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("record that golden images may exist: %w", err)
	}

	return nil
}

func (d *delegate) isRecorded() bool { return d.worker.Status.ProviderStatus != nil }

// PostDeleteHook implements genericactuator.WorkerDelegate: it deletes all golden images of the shoot. Without a
// record, it does so only because older versions of the extension recorded nothing before the first class:
// credentials that do not work created no golden image.
func (d *delegate) PostDeleteHook(ctx context.Context) error {
	if d.isRecorded() {
		return d.deleteImages(ctx, nil)
	}

	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()

	err := d.deleteImages(ctx, nil)
	if !providercluster.IsFailure(err) {
		return err
	}

	logf.FromContext(ctx).Info("Worker is deleted without the provider cluster, since nothing was created there", "reason", err.Error())

	return nil
}

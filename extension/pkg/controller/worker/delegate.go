// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"context"
	"fmt"

	extensionscontroller "github.com/gardener/gardener/extensions/pkg/controller"
	"github.com/gardener/gardener/extensions/pkg/controller/worker/genericactuator"
	"github.com/gardener/gardener/extensions/pkg/util"
	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/errorcodes"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/providercluster"
)

type delegateFactory struct {
	seed               client.Client
	newProviderCluster providercluster.Factory
}

// WorkerDelegate implements genericactuator.DelegateFactory.
func (f *delegateFactory) WorkerDelegate(
	_ context.Context, w *extensionsv1alpha1.Worker, c *extensionscontroller.Cluster,
) (genericactuator.WorkerDelegate, error) {
	return f.delegate(w, c)
}

func (f *delegateFactory) delegate(w *extensionsv1alpha1.Worker, c *extensionscontroller.Cluster) (*delegate, error) {
	d := &delegate{seed: f.seed, newProviderCluster: f.newProviderCluster, worker: w, cluster: c}

	if err := d.decode(); err != nil {
		return nil, err
	}

	return d, nil
}

// delegate is one reconciliation of a Worker.
type delegate struct {
	seed               client.Client
	newProviderCluster providercluster.Factory

	worker  *extensionsv1alpha1.Worker
	cluster *extensionscontroller.Cluster

	profile        api.CloudProfileConfig
	infrastructure api.InfrastructureStatus
	status         api.WorkerStatus

	// desired contains the generated objects; nil before the first call of generated.
	desired *objects
	// provider is created with the first request; see providerCluster.
	provider *providercluster.Cluster
}

// decode reads the parts of the Worker and the CloudProfile that only this extension knows.
func (d *delegate) decode() error {
	if d.cluster.CloudProfile == nil || d.cluster.Shoot == nil {
		return fmt.Errorf("the Cluster %s has no CloudProfile or no Shoot", d.worker.Namespace)
	}

	// A newer version of the extension may have written fields that this version does not know.
	_ = api.Decode(d.worker.Spec.InfrastructureProviderStatus, nil, &d.infrastructure)
	_ = api.Decode(d.worker.Status.ProviderStatus, nil, &d.status)

	errs := api.Decode(d.cluster.CloudProfile.Spec.ProviderConfig, field.NewPath("CloudProfile", "spec", "providerConfig"), &d.profile)
	if len(errs) == 0 || d.deleting() {
		return nil
	}

	// The operator corrects the CloudProfile; the Shoot does not change then.
	return v1beta1helper.NewErrorWithCodes(errs.ToAggregate(), gardencorev1beta1.ErrorRetryableConfigurationProblem)
}

// deleting reports whether the Worker is being deleted. Machines are deleted by their names and
// tags: a configuration that is wrong, and that can no longer be corrected, must not prevent it.
func (d *delegate) deleting() bool { return d.worker.DeletionTimestamp != nil }

// providerCluster returns the client of the provider cluster.
func (d *delegate) providerCluster(ctx context.Context) (*providercluster.Cluster, error) {
	if d.provider == nil {
		var err error

		if d.provider, err = d.newProviderCluster(ctx, d.seed, d.worker.Spec.SecretRef); err != nil {
			return nil, util.DetermineError(err, errorcodes.Known)
		}
	}

	return d.provider, nil
}

// namespace returns the namespace of the machines in the provider cluster.
func (d *delegate) namespace(ctx context.Context) (string, error) {
	if d.infrastructure.Namespace != "" {
		return d.infrastructure.Namespace, nil
	}

	// An Infrastructure of the archived extension has no namespace in its status.
	provider, err := d.providerCluster(ctx)
	if err != nil {
		return "", err
	}

	return provider.Namespace, nil
}

// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package bastion reconciles Bastions: small virtual machines in the provider cluster, through which the users of a
// shoot reach its Nodes by SSH. Gardener creates a Bastion for `gardenctl ssh`, and deletes it when it has expired.
// The package must not depend on machines: a bastion is no Node, and has none of the tags by which
// machine-controller-manager and cloud-controller-manager find machines.
package bastion

import (
	"context"
	"errors"
	"fmt"
	"time"

	extensionscontroller "github.com/gardener/gardener/extensions/pkg/controller"
	"github.com/gardener/gardener/extensions/pkg/util"
	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	reconcilerutils "github.com/gardener/gardener/pkg/controllerutils/reconciler"
	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/errorcodes"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/kubevirt"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/ownership"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/providercluster"
)

const (
	// waitInterval is the time after which a bastion that is being created or deleted is looked at again, and laterInterval that after
	// the first minutes: each time writes to the seed and to the garden.
	waitInterval, laterInterval = 5 * time.Second, time.Minute
	// firstMinutes is the time that a bastion takes to start, or to be deleted, if nothing is wrong.
	firstMinutes = 10 * time.Minute
	// maxBastions bounds the bastions of a Shoot.
	maxBastions = 10
	// attemptTimeout bounds a forced deletion.
	attemptTimeout = time.Minute
)

// actuator implements bastion.Actuator.
type actuator struct {
	seed               client.Client
	newProviderCluster providercluster.Factory
}

// Reconcile implements bastion.Actuator.
func (a *actuator) Reconcile(ctx context.Context, _ logr.Logger, b *extensionsv1alpha1.Bastion, cluster *extensionscontroller.Cluster) error {
	err := a.reconcile(ctx, b, cluster)

	return inTime(b, util.DetermineError(providercluster.Explain(err), errorcodes.Known))
}

func (a *actuator) reconcile(ctx context.Context, b *extensionsv1alpha1.Bastion, cluster *extensionscontroller.Cluster) error {
	if cluster.CloudProfile == nil || cluster.Shoot == nil {
		return fmt.Errorf("the Cluster %s has no CloudProfile or no Shoot", b.Namespace)
	}

	profile := &api.CloudProfileConfig{}
	if errs := api.Decode(cluster.CloudProfile.Spec.ProviderConfig, field.NewPath("CloudProfile", "spec", "providerConfig"), profile); len(errs) > 0 {
		return v1beta1helper.NewErrorWithCodes(errs.ToAggregate(), gardencorev1beta1.ErrorRetryableConfigurationProblem)
	}

	infra, err := a.infrastructure(ctx, b, cluster)
	if err != nil {
		return err
	}

	f, err := a.newFlow(ctx, b, cluster)
	if err != nil {
		return err
	}

	defer f.provider.Close()

	if f.namespace == "" {
		if err := a.admit(ctx, b, cluster); err != nil {
			return err
		}

		f.namespace = infra.Namespace
	}

	if err := a.record(ctx, f); err != nil {
		return err
	}

	ingress, err := f.reconcile(ctx, infra, profile)
	if err != nil {
		return err
	}

	before := b.DeepCopy()
	b.Status.Ingress = ingress

	return a.seed.Status().Patch(ctx, b, client.MergeFrom(before))
}

// admit refuses a new bastion without machines to reach, and one more than a Shoot can have: each member of its project can open
// bastions, which use the quota of the machines.
func (a *actuator) admit(ctx context.Context, b *extensionsv1alpha1.Bastion, cluster *extensionscontroller.Cluster) error {
	if extensionscontroller.IsHibernationEnabled(cluster) {
		return v1beta1helper.NewErrorWithCodes(errors.New("the Shoot is hibernated, and has no machines; wake it up first"), gardencorev1beta1.ErrorConfigurationProblem)
	}

	bastions := &extensionsv1alpha1.BastionList{}
	if err := a.seed.List(ctx, bastions, client.InNamespace(b.Namespace)); err != nil {
		return fmt.Errorf("list Bastions: %w", err)
	}

	open := 0

	for i := range bastions.Items {
		if recorded(&bastions.Items[i]).Namespace != "" {
			open++
		}
	}

	if open < maxBastions {
		return nil
	}

	return v1beta1helper.NewErrorWithCodes(fmt.Errorf("the Shoot has %d Bastions, and can have no more; delete one, or wait until one expires", open), gardencorev1beta1.ErrorInfraQuotaExceeded)
}

// infrastructure returns the namespace and the networks of the shoot's machines.
func (a *actuator) infrastructure(ctx context.Context, b *extensionsv1alpha1.Bastion, cluster *extensionscontroller.Cluster) (*api.InfrastructureStatus, error) {
	infra := &extensionsv1alpha1.Infrastructure{}
	if err := a.seed.Get(ctx, client.ObjectKey{Namespace: b.Namespace, Name: cluster.Shoot.Name}, infra); err != nil {
		return nil, fmt.Errorf("get Infrastructure %s: %w", cluster.Shoot.Name, err)
	}

	status := &api.InfrastructureStatus{}
	_ = api.Decode(infra.Status.ProviderStatus, nil, status) // A newer version may have written it.

	if status.Namespace == "" {
		return nil, fmt.Errorf("the status of Infrastructure %s has no namespace yet; reconcile the Shoot", infra.Name)
	}

	return status, nil
}

func (a *actuator) newFlow(ctx context.Context, b *extensionsv1alpha1.Bastion, cluster *extensionscontroller.Cluster) (*flow, error) {
	provider, err := a.newProviderCluster(ctx, a.seed, corev1.SecretReference{Namespace: b.Namespace, Name: v1beta1constants.SecretNameCloudProvider})
	if err != nil {
		return nil, err
	}

	return &flow{provider: provider, bastion: b, owner: ownership.Of(cluster.Shoot), namespace: recorded(b).Namespace}, nil
}

// recorded returns where objects may exist in the provider cluster; nowhere if its namespace is empty.
func recorded(b *extensionsv1alpha1.Bastion) *api.BastionStatus {
	status := &api.BastionStatus{}
	_ = api.Decode(b.Status.ProviderStatus, nil, status)

	return status
}

// record records the namespace before the first object is written. Without the record, a deletion would need credentials
// that may never have worked.
func (a *actuator) record(ctx context.Context, f *flow) error {
	if recorded(f.bastion).Namespace != "" {
		return nil
	}

	before := f.bastion.DeepCopy()
	f.bastion.Status.ProviderStatus = &runtime.RawExtension{Object: &api.BastionStatus{TypeMeta: api.TypeMeta("BastionStatus"), Namespace: f.namespace}}

	if err := a.seed.Status().Patch(ctx, f.bastion, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("record that objects may exist: %w", err)
	}

	return nil
}

// Delete implements bastion.Actuator.
func (a *actuator) Delete(ctx context.Context, _ logr.Logger, b *extensionsv1alpha1.Bastion, cluster *extensionscontroller.Cluster) error {
	err := util.DetermineError(providercluster.Explain(a.delete(ctx, b, cluster, (*flow).delete)), errorcodes.Known)

	return inTime(b, err)
}

func (a *actuator) delete(
	ctx context.Context, b *extensionsv1alpha1.Bastion, cluster *extensionscontroller.Cluster, run func(*flow, context.Context) error,
) error {
	if recorded(b).Namespace == "" {
		return nil
	}

	if cluster.Shoot == nil {
		return fmt.Errorf("the Cluster %s has no Shoot", b.Namespace)
	}

	f, err := a.newFlow(ctx, b, cluster)
	if err != nil {
		return err
	}

	defer f.provider.Close()

	return run(f, ctx)
}

// ForceDelete implements bastion.Actuator. It deletes what it can, without waiting.
func (a *actuator) ForceDelete(ctx context.Context, log logr.Logger, b *extensionsv1alpha1.Bastion, cluster *extensionscontroller.Cluster) error {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()

	if err := a.delete(ctx, b, cluster, (*flow).forceDelete); err != nil {
		log.Info("Failed to delete the bastion in the provider cluster during forced deletion; its objects may remain",
			"label", kubevirt.LabelShoot+"="+b.Namespace, "reason", err.Error())
	}

	return nil
}

// waitingError is the error of a bastion that is being created or deleted.
type waitingError struct{ error }

// inTime makes the library call the actuator again soon if it waits for the provider cluster. The library does not unwrap
// errors.
func inTime(b *extensionsv1alpha1.Bastion, err error) error {
	if waiting := (waitingError{}); !errors.As(err, &waiting) {
		return err
	}

	interval := waitInterval
	if time.Since(ptr.Deref(b.DeletionTimestamp, b.CreationTimestamp).Time) > firstMinutes {
		interval = laterInterval
	}

	return &reconcilerutils.RequeueAfterError{RequeueAfter: interval, Cause: err}
}

func waiting(format string, args ...any) error { return waitingError{fmt.Errorf(format, args...)} }

// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package infrastructure

import (
	"context"
	"errors"
	"fmt"
	"time"

	extensionscontroller "github.com/gardener/gardener/extensions/pkg/controller"
	"github.com/gardener/gardener/extensions/pkg/util"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/errorcodes"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/kubevirt"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/providercluster"
)

// Delete implements infrastructure.Actuator.
func (a *actuator) Delete(
	ctx context.Context, log logr.Logger, infra *extensionsv1alpha1.Infrastructure, cluster *extensionscontroller.Cluster,
) error {
	err := providercluster.Explain(a.delete(ctx, log, infra, cluster))

	return errorcodes.OfDeletion(util.DetermineError(err, errorcodes.Known), cluster.Shoot, time.Now())
}

// attemptTimeout bounds requests to a provider cluster that need not respond: in a forced deletion, and if
// nothing was written.
const attemptTimeout = time.Minute

// delete deletes the objects of a shoot. Without a record, it does so only because older versions of the
// extension recorded nothing before their first success: credentials that do not work wrote nothing.
func (a *actuator) delete(ctx context.Context, log logr.Logger, infra *extensionsv1alpha1.Infrastructure, cluster *extensionscontroller.Cluster) error {
	if isRecorded(infra) {
		return a.deleteObjects(ctx, infra, cluster, (*flow).delete)
	}

	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()

	err := a.deleteObjects(ctx, infra, cluster, (*flow).delete)
	if unchanged := (*unchangedError)(nil); !providercluster.IsFailure(err) && !errors.As(err, &unchanged) {
		return err
	}

	log.Info("Infrastructure is deleted without the provider cluster, since nothing was created there", "reason", err.Error())

	return nil
}

func (a *actuator) deleteObjects(
	ctx context.Context, infra *extensionsv1alpha1.Infrastructure, cluster *extensionscontroller.Cluster, do func(*flow, context.Context) error,
) error {
	f, err := a.newFlow(ctx, infra, cluster)
	if err != nil {
		return err
	}

	defer f.provider.Close()

	return do(f, ctx)
}

func (f *flow) delete(ctx context.Context) error {
	if err := f.deleteLoadBalancers(ctx); err != nil {
		return err
	}

	if err := f.deleteUnusedNetworks(ctx); err != nil {
		return err
	}

	if err := f.deleteIsolation(ctx); err != nil {
		return err
	}

	return f.deleteNamespace(ctx)
}

// forceDelete continues after errors. The namespace is deleted with the virtual machines that remain.
func (f *flow) forceDelete(ctx context.Context) error {
	return errors.Join(f.deleteLoadBalancers(ctx), f.deleteUnusedNetworks(ctx), f.deleteIsolation(ctx), f.deleteNamespace(ctx))
}

// deleteLoadBalancers deletes the load balancers of the shoot. cloud-controller-manager deletes them
// with the shoot's Services; they are left if the Services were not deleted, as in a forced deletion.
func (f *flow) deleteLoadBalancers(ctx context.Context) error {
	return f.deleteOwned(ctx, corev1.SchemeGroupVersion.WithKind("Service"), "Services", false, nil)
}

// deleteOwned deletes the objects of a kind that belong to the shoot and that matches selects; nil selects all. used is
// set if the shoot uses the kind, so that its account needs the permission to list it.
func (f *flow) deleteOwned(
	ctx context.Context, kind schema.GroupVersionKind, plural string, used bool, matches func(*metav1.PartialObjectMetadata) bool,
) error {
	objects, err := f.provider.ListMetadata(ctx, kind, matches, client.InNamespace(f.namespace), f.owner.Selector())
	if err != nil && !nothingThere(err, used) {
		return fmt.Errorf("list %s: %w", plural, err)
	}

	for i := range objects {
		if !f.owner.Owns(&objects[i]) {
			continue
		}

		if err := f.provider.Delete(ctx, &objects[i]); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete %s %s: %w", kind.Kind, client.ObjectKeyFromObject(&objects[i]), err)
		}
	}

	return nil
}

// deleteUnusedNetworks deletes the networks of a shoot whose Worker is gone. It returns an error if virtual
// machines use them: nothing deletes these machines any more.
func (f *flow) deleteUnusedNetworks(ctx context.Context) error {
	used, err := f.deleteNetworks(ctx, nil)
	if err != nil || len(used) == 0 {
		return err
	}

	names := make([]string, len(used))
	for i, o := range used {
		names[i] = o.name
	}

	return fmt.Errorf("virtual machines of the shoot in namespace %s of the provider cluster still use the networks %s; delete them",
		f.namespace, providercluster.Names(names))
}

// ForceDelete implements infrastructure.Actuator. It deletes what it can.
func (a *actuator) ForceDelete(
	ctx context.Context, log logr.Logger, infra *extensionsv1alpha1.Infrastructure, cluster *extensionscontroller.Cluster,
) error {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()

	if err := a.deleteObjects(ctx, infra, cluster, (*flow).forceDelete); err != nil {
		log.Info("Failed to delete objects in the provider cluster during forced deletion; they may remain", "label", kubevirt.LabelShoot+"="+cluster.Shoot.Status.TechnicalID, "reason", err.Error())
	}

	return nil
}

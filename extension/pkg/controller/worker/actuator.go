// Package worker reconciles Workers: it turns the worker pools of a Shoot into MachineDeployments,
// MachineClasses, the Secrets of these classes, and golden images. Gardener's generic actuator
// calls its delegate, and machine-controller-manager does the rest. The package must not create
// machines.
package worker

import (
	"context"
	"fmt"

	extensionscontroller "github.com/gardener/gardener/extensions/pkg/controller"
	"github.com/gardener/gardener/extensions/pkg/controller/worker"
	"github.com/gardener/gardener/extensions/pkg/controller/worker/genericactuator"
	"github.com/gardener/gardener/extensions/pkg/util"
	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/errorcodes"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/kubevirt"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/providercluster"
)

// Options configure the controller.
type Options struct {
	// Controller are the options of controller-runtime.
	Controller controller.Options
	// IgnoreOperationAnnotation reconciles each change, even without gardenlet's operation annotation.
	IgnoreOperationAnnotation bool
	// ExtensionClasses are the classes of Workers that this process reconciles.
	ExtensionClasses []extensionsv1alpha1.ExtensionClass
	// SelfHostedShootCluster is set if the process runs in a self-hosted shoot.
	SelfHostedShootCluster bool
	// GardenCluster is the garden cluster, from which a restoration reads the state of machines; nil
	// to read it from the Worker.
	GardenCluster cluster.Cluster
	// NewProviderCluster creates the clients of provider clusters.
	NewProviderCluster providercluster.Factory
}

// AddToManager adds the controller to a manager.
func AddToManager(ctx context.Context, mgr manager.Manager, options Options) error {
	factory := &delegateFactory{seed: mgr.GetClient(), newProviderCluster: options.NewProviderCluster}

	return worker.Add(ctx, mgr, worker.AddArgs{
		Actuator: &actuator{
			Actuator: genericactuator.NewActuator(mgr, options.GardenCluster, factory, func(err error) []gardencorev1beta1.ErrorCode {
				return util.DetermineErrorCodes(err, errorcodes.Known)
			}),
			factory: factory,
		},
		ControllerOptions:         options.Controller,
		Predicates:                worker.DefaultPredicates(ctx, mgr, options.IgnoreOperationAnnotation),
		Type:                      kubevirt.Type,
		IgnoreOperationAnnotation: options.IgnoreOperationAnnotation,
		ExtensionClasses:          options.ExtensionClasses,
		SelfHostedShootCluster:    options.SelfHostedShootCluster,
	})
}

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

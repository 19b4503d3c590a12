// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"context"

	"github.com/gardener/gardener/extensions/pkg/controller/worker"
	"github.com/gardener/gardener/extensions/pkg/controller/worker/genericactuator"
	"github.com/gardener/gardener/extensions/pkg/util"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/errorcodes"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/kubevirt"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/providercluster"
)

// AddOptions configure the controller.
type AddOptions struct {
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

// AddToManagerWithOptions adds the controller to a manager.
func AddToManagerWithOptions(ctx context.Context, mgr manager.Manager, options AddOptions) error {
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

// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package bastion

import (
	"github.com/gardener/gardener/extensions/pkg/controller/bastion"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/kubevirt"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/providercluster"
)

// AddOptions configure the controller.
type AddOptions struct {
	// Controller are the options of controller-runtime.
	Controller controller.Options
	// IgnoreOperationAnnotation reconciles each change, even without gardenlet's operation annotation.
	IgnoreOperationAnnotation bool
	// ExtensionClasses are the classes of Bastions that this process reconciles.
	ExtensionClasses []extensionsv1alpha1.ExtensionClass
	// NewProviderCluster creates the clients of provider clusters.
	NewProviderCluster providercluster.Factory
}

// AddToManagerWithOptions adds the controller to a manager.
func AddToManagerWithOptions(mgr manager.Manager, options AddOptions) error {
	return bastion.Add(mgr, bastion.AddArgs{
		Actuator:          &actuator{seed: mgr.GetClient(), newProviderCluster: options.NewProviderCluster},
		ConfigValidator:   configValidator{},
		ControllerOptions: options.Controller,
		Predicates:        bastion.DefaultPredicates(options.IgnoreOperationAnnotation),
		Type:              kubevirt.Type,
		ExtensionClasses:  options.ExtensionClasses,
	})
}

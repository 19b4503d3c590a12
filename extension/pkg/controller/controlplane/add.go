// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"fmt"
	"sync/atomic"

	extensionscontroller "github.com/gardener/gardener/extensions/pkg/controller"
	"github.com/gardener/gardener/extensions/pkg/controller/controlplane"
	"github.com/gardener/gardener/extensions/pkg/controller/controlplane/genericactuator"
	"github.com/gardener/gardener/extensions/pkg/util"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/imagevector"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/identity"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/kubevirt"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/providercluster"
)

// AddOptions configure the controller.
type AddOptions struct {
	// Controller are the options of controller-runtime.
	Controller controller.Options
	// IgnoreOperationAnnotation reconciles each change, even without gardenlet's operation annotation.
	IgnoreOperationAnnotation bool
	// ExtensionClasses are the classes of ControlPlanes that this process reconciles.
	ExtensionClasses []extensionsv1alpha1.ExtensionClass
	// WebhookServerNamespace is the namespace of the extension.
	WebhookServerNamespace string
	// NewProviderCluster creates the clients of provider clusters.
	NewProviderCluster providercluster.Factory
	// Accepts reports whether provider clusters accept tokens.
	Accepts identity.Accepts
	// AllowInternalServers is kubevirt.ServerOptions.AllowInternal.
	AllowInternalServers bool
	// ShootWebhooks is the configuration of the webhooks in the shoots; nil if there are none.
	ShootWebhooks *atomic.Value
}

// AddToManagerWithOptions adds the controller, and the one that renews tokens, to a manager.
func AddToManagerWithOptions(ctx context.Context, mgr manager.Manager, options AddOptions) error {
	generic, err := genericactuator.NewActuator(mgr, kubevirt.Name,
		secretConfigs, shootAccessSecrets,
		nil, seedChart, shootChart, shootCRDsChart, storageClassesChart,
		&valuesProvider{allowInternalServers: options.AllowInternalServers}, extensionscontroller.ChartRendererFactoryFunc(util.NewChartRendererForShoot),
		imagevector.ImageVector(), "", options.ShootWebhooks, options.WebhookServerNamespace)
	if err != nil {
		return err
	}

	a := &actuator{
		Actuator: generic,
		accounts: accounts{
			seed:               mgr.GetClient(),
			newProviderCluster: options.NewProviderCluster,
			accepts:            options.Accepts,
		},
	}

	if err := addRenewal(mgr, a.accounts, options); err != nil {
		return fmt.Errorf("add the renewal of tokens: %w", err)
	}

	return controlplane.Add(mgr, controlplane.AddArgs{
		Actuator:                  a,
		ControllerOptions:         options.Controller,
		Predicates:                controlplane.DefaultPredicates(ctx, mgr, options.IgnoreOperationAnnotation),
		Type:                      kubevirt.Type,
		IgnoreOperationAnnotation: options.IgnoreOperationAnnotation,
		ExtensionClasses:          options.ExtensionClasses,
	})
}

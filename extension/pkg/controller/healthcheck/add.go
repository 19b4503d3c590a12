// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package healthcheck reports the health of shoots: it writes conditions into the status of
// ControlPlanes, Infrastructures and Workers, from which gardenlet derives the conditions of the
// Shoot. Gardener's library calls its checks periodically. The package must not write to the provider
// cluster.
package healthcheck

import (
	"time"

	extensionsconfigv1alpha1 "github.com/gardener/gardener/extensions/pkg/apis/config/v1alpha1"
	"github.com/gardener/gardener/extensions/pkg/controller/healthcheck"
	"github.com/gardener/gardener/extensions/pkg/controller/healthcheck/general"
	"github.com/gardener/gardener/extensions/pkg/util"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/errorcodes"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/identity"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/kubevirt"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/providercluster"
)

// AddOptions configure the controllers.
type AddOptions struct {
	// Controller are the options of controller-runtime.
	Controller controller.Options
	// Period is the time between two checks of a resource; at least MinimumPeriod.
	Period time.Duration
	// ExtensionClasses are the classes of the resources that this process checks.
	ExtensionClasses []extensionsv1alpha1.ExtensionClass
	// NewProviderCluster creates the clients of provider clusters.
	NewProviderCluster providercluster.Factory
	// Accepts reports whether provider clusters accept tokens.
	Accepts identity.Accepts
}

// MinimumPeriod is the shortest period, and the default, as in other extensions. With gardenlet's own period, a user reads
// the cause of a failure within a minute.
const MinimumPeriod = 30 * time.Second

// timeLimit bounds a check of the provider cluster or of the shoot. A check occupies one of the
// concurrent reconciliations of its controller: clusters that do not respond must not delay the checks
// of other shoots. See also providercluster.NewClients.
const timeLimit = 20 * time.Second

// resource is a kind of extension resource, with the checks that determine its conditions.
type resource struct {
	kind      string
	newObject func() extensionsv1alpha1.Object
	newList   func() client.ObjectList
	// condition is determined by the checks, and warning by warnings.
	condition, warning gardencorev1beta1.ConditionType
	checks, warnings   []healthcheck.HealthCheck
}

// AddToManagerWithOptions adds a controller for each kind of resource to a manager.
func AddToManagerWithOptions(mgr manager.Manager, options AddOptions) error {
	newProviderCluster := withCachedCredentials(mgr.GetCache(), options.NewProviderCluster)

	for _, r := range resources(mgr.GetClient(), newProviderCluster, options.Accepts) {
		if err := r.register(mgr, options); err != nil {
			return err
		}
	}

	return nil
}

// register adds the controller of a kind. It needs no PreCheckFunc: the library checks no hibernated
// shoots.
func (r resource) register(mgr manager.Manager, options AddOptions) error {
	args := healthcheck.DefaultAddArgs{
		Controller:        options.Controller,
		ExtensionClasses:  options.ExtensionClasses,
		HealthCheckConfig: extensionsconfigv1alpha1.HealthCheckConfig{SyncPeriod: metav1.Duration{Duration: options.Period}},
	}

	var checks []healthcheck.ConditionTypeToHealthCheck
	for _, check := range r.checks {
		checks = append(checks, healthcheck.ConditionTypeToHealthCheck{ConditionType: string(r.condition), HealthCheck: check})
	}

	for _, check := range r.warnings {
		checks = append(checks, healthcheck.ConditionTypeToHealthCheck{ConditionType: string(r.warning), HealthCheck: check})
	}

	return healthcheck.DefaultRegistration(
		kubevirt.Type, extensionsv1alpha1.SchemeGroupVersion.WithKind(r.kind), r.newList, r.newObject, mgr, args, nil, checks, nil,
	)
}

// resources returns the resources of which gardenlet reads the conditions.
func resources(seed client.Client, newProviderCluster providercluster.Factory, accepts identity.Accepts) []resource {
	return []resource{
		{
			kind:      extensionsv1alpha1.ControlPlaneResource,
			condition: gardencorev1beta1.ShootControlPlaneHealthy,
			newObject: func() extensionsv1alpha1.Object { return &extensionsv1alpha1.ControlPlane{} },
			newList:   func() client.ObjectList { return &extensionsv1alpha1.ControlPlaneList{} },
			checks: []healthcheck.HealthCheck{
				general.NewSeedDeploymentHealthChecker(kubevirt.CloudControllerManagerName),
				general.NewSeedDeploymentHealthChecker(kubevirt.CSIControllerName),
				general.NewSeedDeploymentHealthChecker(kubevirt.CSISnapshotControllerName),
				&tokensCheck{seed: seed, accepts: accepts},
			},
		},
		{
			kind:      extensionsv1alpha1.InfrastructureResource,
			condition: gardencorev1beta1.ShootControlPlaneHealthy,
			newObject: func() extensionsv1alpha1.Object { return &extensionsv1alpha1.Infrastructure{} },
			newList:   func() client.ObjectList { return &extensionsv1alpha1.InfrastructureList{} },
			checks:    []healthcheck.HealthCheck{&providerClusterCheck{seed: seed, newProviderCluster: newProviderCluster}},
			// gardenlet reads four types of conditions. While one is Progressing, it does not check the same itself: that of
			// the monitoring hides nothing of the machines.
			warning:  gardencorev1beta1.ShootObservabilityComponentsHealthy,
			warnings: []healthcheck.HealthCheck{&drainsCheck{seed: seed, newProviderCluster: newProviderCluster}},
		},
		{
			kind:      extensionsv1alpha1.WorkerResource,
			condition: gardencorev1beta1.ShootEveryNodeReady,
			newObject: func() extensionsv1alpha1.Object { return &extensionsv1alpha1.Worker{} },
			newList:   func() client.ObjectList { return &extensionsv1alpha1.WorkerList{} },
			checks: []healthcheck.HealthCheck{
				&nodesCheck{seed: seed},
				&machinesCheck{seed: seed, newProviderCluster: newProviderCluster},
			},
		},
	}
}

// healthy is the result of a check without findings.
func healthy() *healthcheck.SingleCheckResult {
	return &healthcheck.SingleCheckResult{Status: gardencorev1beta1.ConditionTrue}
}

// unhealthy is the result of a check that found an error.
func unhealthy(err error) *healthcheck.SingleCheckResult {
	return &healthcheck.SingleCheckResult{
		Status: gardencorev1beta1.ConditionFalse,
		Detail: err.Error(),
		Codes:  util.DetermineErrorCodes(err, errorcodes.Known),
	}
}

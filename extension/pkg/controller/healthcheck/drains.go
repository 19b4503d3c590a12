// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package healthcheck

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	extensionscontroller "github.com/gardener/gardener/extensions/pkg/controller"
	"github.com/gardener/gardener/extensions/pkg/controller/healthcheck"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/controller/infrastructure"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/kubevirt"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/providercluster"
)

// drainsCheck warns if a drain of a provider node harms the shoot. Its condition has no other check: a warning would
// otherwise remain False after the failure of another check, and hide failures of gardenlet's own checks.
type drainsCheck struct {
	seed               client.Reader
	newProviderCluster providercluster.Factory
}

// SetLoggerSuffix implements healthcheck.HealthCheck.
func (*drainsCheck) SetLoggerSuffix(string, string) {}

// Check implements healthcheck.HealthCheck. A provider cluster that cannot be read is reported by providerClusterCheck.
func (c *drainsCheck) Check(ctx context.Context, request types.NamespacedName) (*healthcheck.SingleCheckResult, error) {
	ctx, cancel := context.WithTimeout(ctx, timeLimit)
	defer cancel()

	infra := &extensionsv1alpha1.Infrastructure{}
	if err := c.seed.Get(ctx, request, infra); err != nil {
		return nil, fmt.Errorf("get Infrastructure %s: %w", request, err)
	}

	cluster, err := extensionscontroller.GetCluster(ctx, c.seed, request.Namespace)
	if err != nil {
		return nil, fmt.Errorf("get Cluster %s: %w", request.Namespace, err)
	}

	if c.lacksEvacuation(ctx, infra) {
		return warningOf(errLacksEvacuation), nil
	}

	provider, err := c.newProviderCluster(ctx, c.seed, infra.Spec.SecretRef)
	if err != nil {
		return healthy(), nil // see above
	}

	defer provider.Close()

	err = infrastructure.Drains(ctx, provider, infra, cluster)
	if errors.Is(err, providercluster.ErrBusy) {
		return nil, err
	}

	return warningOf(err), nil
}

var errLacksEvacuation = errors.New("a drain of a node of the provider cluster waits for machines of the shoot, since machine-controller-manager runs without --evacuation; reconcile the Shoot")

// lacksEvacuation reports whether machines wait for the driver, but it runs without evacuation: gardenlet has written
// its Deployment before the status of the Infrastructure. gardenlet reports a Deployment that is missing.
func (c *drainsCheck) lacksEvacuation(ctx context.Context, infra *extensionsv1alpha1.Infrastructure) bool {
	status := &api.InfrastructureStatus{}
	_ = api.Decode(infra.Status.ProviderStatus, nil, status) // A newer version may have written other fields.

	deployment := &appsv1.Deployment{}
	key := client.ObjectKey{Namespace: infra.Namespace, Name: v1beta1constants.DeploymentNameMachineControllerManager}

	return status.Evacuation && c.seed.Get(ctx, key, deployment) == nil &&
		!slices.ContainsFunc(deployment.Spec.Template.Spec.Containers, func(container corev1.Container) bool {
			return slices.Contains(container.Args, "--"+kubevirt.FlagEvacuation+"=true")
		})
}

// lasting is longer than any warning lasts: a condition is Progressing for as long, and False afterwards.
const lasting = 100 * 365 * 24 * time.Hour

// warningOf returns the result of a check of what does not affect the shoot yet. The condition has its text, and is not
// False.
func warningOf(err error) *healthcheck.SingleCheckResult {
	if err == nil {
		return healthy()
	}

	result := unhealthy(err)
	result.Status = gardencorev1beta1.ConditionProgressing
	result.ProgressingThreshold = ptr.To(lasting)

	return result
}

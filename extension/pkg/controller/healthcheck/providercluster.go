// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package healthcheck

import (
	"context"
	"errors"
	"fmt"

	extensionscontroller "github.com/gardener/gardener/extensions/pkg/controller"
	"github.com/gardener/gardener/extensions/pkg/controller/healthcheck"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/controller/infrastructure"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/providercluster"
)

// providerClusterCheck checks that the provider cluster can run the machines of a shoot.
type providerClusterCheck struct {
	seed               client.Reader
	newProviderCluster providercluster.Factory
}

// SetLoggerSuffix implements healthcheck.HealthCheck.
func (*providerClusterCheck) SetLoggerSuffix(string, string) {}

// Check implements healthcheck.HealthCheck.
func (c *providerClusterCheck) Check(ctx context.Context, request types.NamespacedName) (*healthcheck.SingleCheckResult, error) {
	ctx, cancel := context.WithTimeout(ctx, timeLimit)
	defer cancel()

	infra := &extensionsv1alpha1.Infrastructure{}
	if err := c.seed.Get(ctx, request, infra); err != nil {
		return nil, fmt.Errorf("get Infrastructure %s: %w", request, err)
	}

	provider, err := c.newProviderCluster(ctx, c.seed, infra.Spec.SecretRef)

	switch {
	case errors.Is(err, providercluster.ErrCredentials):
		return unhealthy(err), nil
	case err != nil:
		return nil, err // It is an error of the seed.
	}

	defer provider.Close()

	if err := checkProvider(ctx, provider); err != nil {
		return conditionOf(err)
	}

	cluster, err := extensionscontroller.GetCluster(ctx, c.seed, request.Namespace)
	if err != nil {
		return nil, fmt.Errorf("get Cluster %s: %w", request.Namespace, err)
	}

	return conditionOf(infrastructure.Findings(ctx, provider, infra, cluster))
}

// conditionOf returns the result of a check. A check that was not completed, because of other shoots, has none.
func conditionOf(err error) (*healthcheck.SingleCheckResult, error) {
	switch {
	case errors.Is(err, providercluster.ErrBusy):
		return nil, err
	case err != nil:
		return unhealthy(err), nil
	default:
		return healthy(), nil
	}
}

// checkProvider returns an error unless machines can run in the provider cluster.
func checkProvider(ctx context.Context, provider *providercluster.Cluster) error {
	if err := provider.CheckAPIs(ctx); err != nil {
		return err // Nothing else works.
	}

	var errs []error

	for _, p := range []product{kubeVirt(), cdi()} {
		err := p.check(ctx, provider)

		// The permission to read the operator's report is optional, as is an operator.
		if !apierrors.IsForbidden(err) && !apierrors.IsNotFound(err) {
			errs = append(errs, err)
		}
	}

	return errors.Join(errs...)
}

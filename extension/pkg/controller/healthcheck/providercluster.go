package healthcheck

import (
	"context"
	"errors"
	"fmt"

	"github.com/gardener/gardener/extensions/pkg/controller/healthcheck"
	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

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
		return unhealthy(err), nil
	}

	return healthy(), nil
}

// checkProvider returns an error unless machines can run in the provider cluster.
func checkProvider(ctx context.Context, provider *providercluster.Cluster) error {
	if err := provider.CheckAPIs(ctx); err != nil {
		return withRemedy(err) // Nothing else works.
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

// withRemedy adds what to do about an error of the provider cluster's API.
func withRemedy(err error) error {
	remedy := "check its API server, the network between it and the seed, and the server and certificate authority in the kubeconfig"

	switch coder := v1beta1helper.Coder(nil); {
	case errors.As(err, &coder):
		return err // It names the remedy.
	case apierrors.IsUnauthorized(err):
		remedy = "replace the credentials of the Shoot"
	case apierrors.IsForbidden(err):
		remedy = "grant the account of the kubeconfig the permissions of extension/kubernetes/provider-namespace, or of extension/kubernetes/namespace-per-shoot for namespace.create"
	}

	return fmt.Errorf("%w; %s", err, remedy)
}

// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package cloudprovider is the webhook for the credentials of shoots. It writes the kubeconfig that the
// extension and the driver read: for a WorkloadIdentity, from its config and its current token; and if a
// shoot has a namespace of its own, with this namespace. The API server of the seed calls the webhook for
// the Secret cloudprovider, which gardenlet copies from the garden cluster, and in which it renews the
// token. It must not call a provider cluster.
package cloudprovider

import (
	"context"
	"fmt"
	"time"

	extensionscontroller "github.com/gardener/gardener/extensions/pkg/controller"
	extensionswebhook "github.com/gardener/gardener/extensions/pkg/webhook"
	"github.com/gardener/gardener/extensions/pkg/webhook/cloudprovider"
	gcontext "github.com/gardener/gardener/extensions/pkg/webhook/context"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	providerspec "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/kubevirt"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/kubeconfig"
)

// New creates the webhook. It refuses WorkloadIdentities with other servers than the options allow.
func New(mgr manager.Manager, identities *kubevirt.IdentityOptions) (*extensionswebhook.Webhook, error) {
	log := mgr.GetLogger().WithName("cloudprovider-webhook")

	return cloudprovider.New(mgr, cloudprovider.Args{
		Provider: kubevirt.Type,
		Mutator:  cloudprovider.NewMutator(mgr, log, &ensurer{identities: identities}),
	})
}

// ensurer changes the Secret.
type ensurer struct {
	identities *kubevirt.IdentityOptions
}

// EnsureCloudProviderSecret implements cloudprovider.Ensurer. It does not change an invalid kubeconfig:
// the Infrastructure controller reports it to the user. It refuses an invalid config of a
// WorkloadIdentity: the previous one remains in effect.
func (e *ensurer) EnsureCloudProviderSecret(ctx context.Context, gctx gcontext.GardenContext, secret, oldSecret *corev1.Secret) error {
	cluster, err := clusterOf(ctx, gctx)
	if err != nil {
		return fmt.Errorf("get Cluster: %w", err)
	}

	config := &api.InfrastructureConfig{}
	_ = api.Decode(cluster.Shoot.Spec.Provider.InfrastructureConfig, field.NewPath("infrastructureConfig"), config) // The Infrastructure reports errors.

	namespace := ""
	if config.Namespace != nil && config.Namespace.Create {
		namespace = cluster.Shoot.Status.TechnicalID
	}

	if kubevirt.IsWorkloadIdentity(secret) {
		return e.writeKubeconfig(secret, oldSecret, namespace)
	}

	if namespace == "" {
		return nil
	}

	raw := secret.Data[providerspec.SecretKeyKubeconfig]
	if _, _, err := kubeconfig.RESTConfig(raw); err != nil {
		return nil //nolint:nilerr // see above
	}

	changed, err := withNamespace(raw, namespace)
	if err != nil {
		return fmt.Errorf("write the namespace into the kubeconfig of the Secret %s: %w", secret.Name, err)
	}

	secret.Data[providerspec.SecretKeyKubeconfig] = changed

	return nil
}

// clusterOf returns the Cluster of the Secret. gardenlet writes it shortly before the Secret, and does
// not repeat a refused request soon, so it waits until the cache has it. The API server waits ten
// seconds for the webhook.
func clusterOf(ctx context.Context, gctx gcontext.GardenContext) (cluster *extensionscontroller.Cluster, last error) {
	const every, atMost = 100 * time.Millisecond, 5 * time.Second

	_ = wait.PollUntilContextTimeout(ctx, every, atMost, true, func(ctx context.Context) (bool, error) { // The last error says more.
		cluster, last = gctx.GetCluster(ctx)

		return !apierrors.IsNotFound(last), nil
	})

	return cluster, last
}

// withNamespace returns a kubeconfig whose current context has the namespace. A kubeconfig that has it
// is not written again.
func withNamespace(raw []byte, namespace string) ([]byte, error) {
	config, err := clientcmd.Load(raw)
	if err != nil {
		return nil, err
	}

	current := config.Contexts[config.CurrentContext]
	if current.Namespace == namespace {
		return raw, nil
	}

	current.Namespace = namespace

	return clientcmd.Write(*config)
}

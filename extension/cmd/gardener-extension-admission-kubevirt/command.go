// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"

	controllercmd "github.com/gardener/gardener/extensions/pkg/controller/cmd"
	extensionswebhook "github.com/gardener/gardener/extensions/pkg/webhook"
	webhookcmd "github.com/gardener/gardener/extensions/pkg/webhook/cmd"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	securityv1alpha1 "github.com/gardener/gardener/pkg/apis/security/v1alpha1"
	"github.com/spf13/cobra"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubernetesscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/component-base/version"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/admission/mutator"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/admission/validator"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/kubevirt"
)

// name is the name of the component: of its webhooks, and of its Lease.
const name = "admission-" + kubevirt.Type

// options are the command-line options that admission components of Gardener have in common.
type options struct {
	rest       *controllercmd.RESTOptions
	manager    *controllercmd.ManagerOptions
	webhooks   *webhookcmd.AddToManagerOptions
	servers    *kubevirt.ServerOptions
	identities *kubevirt.IdentityOptions

	all controllercmd.OptionAggregator
}

func newOptions() *options {
	o := &options{
		rest: &controllercmd.RESTOptions{},
		manager: &controllercmd.ManagerOptions{
			LeaderElection:          true,
			LeaderElectionID:        controllercmd.LeaderElectionNameID(name),
			LeaderElectionNamespace: os.Getenv("LEADER_ELECTION_NAMESPACE"),
			WebhookServerPort:       443,
			WebhookCertDir:          "/tmp/" + name + "-cert",
			MetricsBindAddress:      ":8080",
			HealthBindAddress:       ":8081",
		},
		servers:    &kubevirt.ServerOptions{},
		identities: &kubevirt.IdentityOptions{},
	}
	o.webhooks = webhookcmd.NewAddToManagerOptions(name, "", nil, nil,
		&webhookcmd.ServerOptions{Namespace: os.Getenv("WEBHOOK_CONFIG_NAMESPACE")},
		webhookcmd.NewSwitchOptions(
			webhookcmd.Switch(validator.Name, o.newWebhook),
			webhookcmd.Switch(validator.SecretsName, o.newSecretsWebhook),
			webhookcmd.Switch(mutator.Name, mutator.New),
		))
	o.all = controllercmd.NewOptionAggregator(o.rest, o.manager, o.webhooks, o.servers, o.identities)

	return o
}

func (o *options) newWebhook(mgr manager.Manager) (*extensionswebhook.Webhook, error) {
	return validator.New(mgr, o.servers.AllowInternal, o.identities)
}

func (o *options) newSecretsWebhook(mgr manager.Manager) (*extensionswebhook.Webhook, error) {
	return validator.NewSecrets(mgr, o.servers.AllowInternal)
}

func newCommand() *cobra.Command {
	o := newOptions()
	cmd := &cobra.Command{
		Use:   "gardener-extension-admission-kubevirt",
		Short: "Validate Shoots, CloudProfiles, bindings and credentials for Gardener's provider extension for KubeVirt.",
		Long: `Validate Shoots, CloudProfiles, bindings and credentials for Gardener's provider extension for KubeVirt.
--kubeconfig is for the cluster with the Lease of the leader and the certificates; by default, that of the pod. The environment
variable GARDEN_KUBECONFIG is for the garden cluster, if that is another one.`,
		Version:      version.Get().GitVersion + " " + version.Get().GitCommit,
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.all.Complete(); err != nil {
				return fmt.Errorf("invalid flags: %w", err)
			}

			return o.run(cmd.Context())
		},
	}

	o.all.AddFlags(cmd.Flags())
	cmd.AddCommand(renderCommand())

	return cmd
}

// run runs the manager until the context ends.
func (o *options) run(ctx context.Context) error {
	managerOptions := o.manager.Completed().Options()

	var err error
	if managerOptions.Scheme, err = newScheme(); err != nil {
		return err
	}

	runtimeConfig := o.rest.Completed().Config

	gardenConfig, err := gardenConfigOr(runtimeConfig)
	if err != nil {
		return err
	}

	managerOptions.LeaderElectionConfig = runtimeConfig
	// The account reads only its own objects of these kinds.
	managerOptions.Client.Cache = &client.CacheOptions{DisableFor: []client.Object{
		&corev1.Secret{}, &corev1.Namespace{}, &admissionregistrationv1.MutatingWebhookConfiguration{}, &admissionregistrationv1.ValidatingWebhookConfiguration{},
	}}

	mgr, err := manager.New(gardenConfig, managerOptions)
	if err != nil {
		return fmt.Errorf("create manager: %w", err)
	}

	source, err := addRuntime(mgr, runtimeConfig)
	if err != nil {
		return err
	}

	if _, err := o.webhooks.Completed().AddToManager(ctx, mgr, source); err != nil {
		return fmt.Errorf("add webhooks: %w", err)
	}

	if err := addChecks(mgr); err != nil {
		return err
	}

	return mgr.Start(ctx)
}

// newScheme returns the kinds of the garden.
func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	kinds := runtime.NewSchemeBuilder(kubernetesscheme.AddToScheme, gardencorev1beta1.AddToScheme, securityv1alpha1.AddToScheme)

	return scheme, kinds.AddToScheme(scheme)
}

// gardenConfigOr returns the configuration of the garden cluster. Without a kubeconfig for it, it is the
// runtime cluster.
func gardenConfigOr(runtimeConfig *rest.Config) (config *rest.Config, err error) {
	config = runtimeConfig
	if file := os.Getenv("GARDEN_KUBECONFIG"); file != "" {
		if config, err = clientcmd.BuildConfigFromFlags("", file); err != nil {
			return nil, fmt.Errorf("read kubeconfig of the garden cluster: %w", err)
		}
	}

	// The limits of Gardener's own admissions. A call that waits for client-go's default of 5 requests per
	// second would exceed the timeout of the webhook when many Shoots change at the same time.
	config.QPS = 100
	config.Burst = 130

	return config, nil
}

// addRuntime adds the runtime cluster, which has the Secrets with the certificates.
func addRuntime(mgr manager.Manager, config *rest.Config) (cluster.Cluster, error) {
	source, err := cluster.New(config, func(c *cluster.Options) {
		c.Logger = mgr.GetLogger()
		c.Client.Cache = &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}}}
	})
	if err != nil {
		return nil, fmt.Errorf("create client of the runtime cluster: %w", err)
	}

	return source, mgr.Add(source)
}

func addChecks(mgr manager.Manager) error {
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return err
	}

	return mgr.AddReadyzCheck("webhook-server", mgr.GetWebhookServer().StartedChecker())
}

// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"time"

	extensionscontroller "github.com/gardener/gardener/extensions/pkg/controller"
	extensionsbastion "github.com/gardener/gardener/extensions/pkg/controller/bastion"
	controllercmd "github.com/gardener/gardener/extensions/pkg/controller/cmd"
	extensionscontrolplane "github.com/gardener/gardener/extensions/pkg/controller/controlplane"
	"github.com/gardener/gardener/extensions/pkg/controller/controlplane/genericactuator"
	extensionshealthcheck "github.com/gardener/gardener/extensions/pkg/controller/healthcheck"
	"github.com/gardener/gardener/extensions/pkg/controller/heartbeat"
	heartbeatcmd "github.com/gardener/gardener/extensions/pkg/controller/heartbeat/cmd"
	extensionsinfrastructure "github.com/gardener/gardener/extensions/pkg/controller/infrastructure"
	extensionsworker "github.com/gardener/gardener/extensions/pkg/controller/worker"
	extensionswebhook "github.com/gardener/gardener/extensions/pkg/webhook"
	extensionscloudproviderwebhook "github.com/gardener/gardener/extensions/pkg/webhook/cloudprovider"
	webhookcmd "github.com/gardener/gardener/extensions/pkg/webhook/cmd"
	extensionscontrolplanewebhook "github.com/gardener/gardener/extensions/pkg/webhook/controlplane"
	extensionsshootwebhook "github.com/gardener/gardener/extensions/pkg/webhook/shoot"
	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	"github.com/gardener/gardener/pkg/client/kubernetes"
	"github.com/gardener/gardener/pkg/controllerutils/routes"
	gardenerhealthz "github.com/gardener/gardener/pkg/healthz"
	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime"
	vpaautoscalingv1 "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/apis/autoscaling.k8s.io/v1"
	kubernetesscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/component-base/version"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/controller/bastion"
	controlplanecontroller "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/controller/controlplane"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/controller/healthcheck"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/controller/infrastructure"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/controller/worker"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/kubevirt"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/providercluster"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/webhook/cloudprovider"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/webhook/controlplane"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/webhook/server"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/webhook/shoot"
)

// options are the command-line options that Gardener extensions have in common.
type options struct {
	general        *controllercmd.GeneralOptions
	rest           *controllercmd.RESTOptions
	manager        *controllercmd.ManagerOptions
	reconciler     *controllercmd.ReconcilerOptions
	infrastructure *controllercmd.ControllerOptions
	controlPlane   *controllercmd.ControllerOptions
	worker         *controllercmd.ControllerOptions
	bastion        *controllercmd.ControllerOptions
	healthCheck    *controllercmd.ControllerOptions
	heartbeat      *heartbeatcmd.Options
	webhookServer  *webhookcmd.ServerOptions
	webhooks       *webhookcmd.AddToManagerOptions
	controllers    *controllercmd.SwitchOptions
	servers        *kubevirt.ServerOptions
	identities     *kubevirt.IdentityOptions

	// configFile is the path of a configuration file; empty if there is none.
	configFile string
	// qps and burst limit the requests to the seed.
	qps   float32
	burst int
	// healthCheckPeriod is the time between two health checks of a resource.
	healthCheckPeriod time.Duration
	// profiling serves profiles beside the metrics.
	profiling bool

	all controllercmd.OptionAggregator
	// garden is the garden cluster; nil if GARDEN_KUBECONFIG is not set.
	garden cluster.Cluster
	// shootWebhooks is the configuration of the webhooks in the shoots; nil if they are disabled.
	shootWebhooks *atomic.Value
}

func newOptions() *options {
	const (
		// Half of them wait for slow provider clusters, see providercluster.NewClients.
		reconciles, healthChecks = 10, 10
	)

	o := &options{
		// Gardener's library writes the objects of a Worker in parallel.
		qps:               100,
		burst:             130,
		healthCheckPeriod: healthcheck.MinimumPeriod,
		general:           &controllercmd.GeneralOptions{},
		rest:              &controllercmd.RESTOptions{},
		manager: &controllercmd.ManagerOptions{
			LeaderElection:          true,
			LeaderElectionID:        controllercmd.LeaderElectionNameID(kubevirt.Name),
			LeaderElectionNamespace: os.Getenv("LEADER_ELECTION_NAMESPACE"),
			WebhookServerPort:       443,
			WebhookCertDir:          "/tmp/gardener-extensions-cert",
			MetricsBindAddress:      ":8080",
			HealthBindAddress:       ":8081",
		},
		reconciler:     &controllercmd.ReconcilerOptions{},
		infrastructure: &controllercmd.ControllerOptions{MaxConcurrentReconciles: reconciles},
		controlPlane:   &controllercmd.ControllerOptions{MaxConcurrentReconciles: reconciles},
		worker:         &controllercmd.ControllerOptions{MaxConcurrentReconciles: reconciles},
		bastion:        &controllercmd.ControllerOptions{MaxConcurrentReconciles: reconciles},
		webhookServer:  &webhookcmd.ServerOptions{Namespace: os.Getenv("WEBHOOK_CONFIG_NAMESPACE")},
		healthCheck:    &controllercmd.ControllerOptions{MaxConcurrentReconciles: healthChecks},
		servers:        &kubevirt.ServerOptions{},
		identities:     &kubevirt.IdentityOptions{},
		heartbeat: &heartbeatcmd.Options{
			ExtensionName:        kubevirt.Name,
			RenewIntervalSeconds: 30,
			Namespace:            os.Getenv("LEADER_ELECTION_NAMESPACE"),
		},
	}

	o.webhooks = webhookcmd.NewAddToManagerOptions(
		kubevirt.Name, genericactuator.ShootWebhooksResourceName, genericactuator.ShootWebhookNamespaceSelector(kubevirt.Type),
		o.general, o.webhookServer,
		webhookcmd.NewSwitchOptions(
			webhookcmd.Switch(extensionscontrolplanewebhook.WebhookName, o.newControlPlaneWebhook),
			webhookcmd.Switch(extensionscloudproviderwebhook.WebhookName, o.newCloudProviderWebhook),
			webhookcmd.Switch(extensionsshootwebhook.WebhookName, shoot.AddToManager),
		),
	)
	o.addControllers()

	return o
}

// addControllers sets the options about the controllers, and all options.
func (o *options) addControllers() {
	o.controllers = controllercmd.NewSwitchOptions(
		controllercmd.Switch(extensionsinfrastructure.ControllerName, o.addInfrastructure),
		controllercmd.Switch(extensionscontrolplane.ControllerName, o.addControlPlane),
		controllercmd.Switch(extensionsworker.ControllerName, o.addWorker),
		controllercmd.Switch(extensionsbastion.ControllerName, o.addBastion),
		controllercmd.Switch(extensionshealthcheck.ControllerName, o.addHealthChecks),
		controllercmd.Switch(heartbeat.ControllerName, o.addHeartbeat),
	)
	o.all = controllercmd.NewOptionAggregator(
		o.general, o.rest, o.manager, o.reconciler,
		controllercmd.PrefixOption("infrastructure-", o.infrastructure),
		controllercmd.PrefixOption("controlplane-", o.controlPlane),
		controllercmd.PrefixOption("worker-", o.worker),
		controllercmd.PrefixOption("bastion-", o.bastion),
		controllercmd.PrefixOption("healthcheck-", o.healthCheck),
		controllercmd.PrefixOption("heartbeat-", o.heartbeat),
		o.controllers, o.webhooks, o.servers, o.identities,
	)
}

func newCommand() *cobra.Command {
	o := newOptions()
	cmd := &cobra.Command{
		Use:          "gardener-extension-provider-kubevirt",
		Short:        "Run the controllers and webhooks of Gardener's provider extension for KubeVirt.",
		Version:      version.Get().GitVersion + " " + version.Get().GitCommit,
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.configure(cmd.Flags()); err != nil {
				return err
			}

			if err := o.all.Complete(); err != nil {
				return fmt.Errorf("invalid flags: %w", err)
			}

			if err := o.validate(); err != nil {
				return err
			}

			return o.run(cmd.Context())
		},
	}

	o.addFlags(cmd.Flags())

	return cmd
}

func (o *options) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.configFile, flagConfigFile, o.configFile, "File with a "+configKind+" ("+configVersion+"). Flags take precedence over its fields.")
	flags.DurationVar(&o.healthCheckPeriod, flagHealthCheckPeriod, o.healthCheckPeriod,
		"Time between two health checks of a resource; at least "+healthcheck.MinimumPeriod.String()+", and less than the threshold after which gardenlet ignores conditions, 5m by default.")
	flags.BoolVar(&o.profiling, "profiling", o.profiling, "Serve profiles at /debug/pprof/ of the address of the metrics.")
	o.all.AddFlags(flags)
}

// validate returns an error for values of flags with which nothing works.
func (o *options) validate() error {
	if o.healthCheckPeriod < healthcheck.MinimumPeriod {
		return fmt.Errorf("--%s: %s is less than %s", flagHealthCheckPeriod, o.healthCheckPeriod, healthcheck.MinimumPeriod)
	}

	return o.heartbeat.Validate()
}

// run runs the manager until the context ends.
func (o *options) run(ctx context.Context) error {
	config := o.rest.Completed().Config
	config.QPS = o.qps
	config.Burst = o.burst

	managerConfig := o.manager.Completed()
	managerOptions := withSmallCache(managerConfig.Options())
	managerOptions.WebhookServer = server.New(webhook.Options{
		Host:    managerConfig.WebhookServerHost,
		Port:    managerConfig.WebhookServerPort,
		CertDir: managerConfig.WebhookCertDir,
	})

	if o.profiling {
		managerOptions.Metrics.ExtraHandlers = routes.ProfilingHandlers
	}

	var err error
	if managerOptions.Scheme, err = newScheme(); err != nil {
		return err
	}

	mgr, err := manager.New(config, managerOptions)
	if err != nil {
		return fmt.Errorf("create manager: %w", err)
	}

	if err := o.addGarden(mgr); err != nil {
		return err
	}

	if err := o.addWebhooks(ctx, mgr); err != nil {
		return fmt.Errorf("add webhooks: %w", err)
	}

	if err := o.controllers.Completed().AddToManager(ctx, mgr); err != nil {
		return fmt.Errorf("add controllers: %w", err)
	}

	if err := cacheBeforeReady(ctx, mgr.GetCache()); err != nil {
		return err
	}

	if err := addChecks(mgr); err != nil {
		return err
	}

	return mgr.Start(ctx)
}

// newScheme returns the kinds of the seed.
func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	kinds := runtime.NewSchemeBuilder(kubernetesscheme.AddToScheme, extensionscontroller.AddToScheme, resourcesv1alpha1.AddToScheme,
		vpaautoscalingv1.AddToScheme, machinev1alpha1.AddToScheme, api.AddToScheme)

	return scheme, kinds.AddToScheme(scheme)
}

// addGarden adds the garden cluster, whose kubeconfig gardenlet provides.
func (o *options) addGarden(mgr manager.Manager) error {
	file := os.Getenv("GARDEN_KUBECONFIG")
	if file == "" {
		return nil
	}

	config, err := kubernetes.RESTConfigFromKubeconfigFile(file, kubernetes.AuthTokenFile)
	if err != nil {
		return fmt.Errorf("read kubeconfig of the garden cluster: %w", err)
	}

	if o.garden, err = cluster.New(config, func(c *cluster.Options) {
		c.Scheme = kubernetes.GardenScheme
		c.Logger = mgr.GetLogger()
	}); err != nil {
		return fmt.Errorf("create client of the garden cluster: %w", err)
	}

	return mgr.Add(o.garden)
}

func (o *options) newControlPlaneWebhook(mgr manager.Manager) (*extensionswebhook.Webhook, error) {
	return controlplane.New(mgr, o.servers.AllowInternal)
}

func (o *options) newCloudProviderWebhook(mgr manager.Manager) (*extensionswebhook.Webhook, error) {
	return cloudprovider.New(mgr, o.identities)
}

// providerClusters returns the clients of a controller.
func (o *options) providerClusters(c *controllercmd.ControllerOptions) *providercluster.Clients {
	return providercluster.NewClients(o.servers.Servers(), c.Completed().MaxConcurrentReconciles)
}

// addWebhooks adds the webhooks. Gardener's library never stores the configuration for the shoots if
// their webhook is disabled, and reconciles no ControlPlane before it is stored.
func (o *options) addWebhooks(ctx context.Context, mgr manager.Manager) error {
	configuration, err := o.webhooks.Completed().AddToManager(ctx, server.Registrar(mgr), nil)

	if disabled := o.webhooks.Switch.Disabled; !slices.Contains(disabled, "*") && !slices.Contains(disabled, extensionsshootwebhook.WebhookName) {
		o.shootWebhooks = configuration
	}

	return err
}

func (o *options) addInfrastructure(ctx context.Context, mgr manager.Manager) error {
	return infrastructure.AddToManagerWithOptions(ctx, mgr, infrastructure.AddOptions{
		Controller:                o.infrastructure.Completed().Options(),
		IgnoreOperationAnnotation: o.reconciler.Completed().IgnoreOperationAnnotation,
		ExtensionClasses:          o.general.Completed().ExtensionClasses,
		NewProviderCluster:        o.providerClusters(o.infrastructure).New,
	})
}

func (o *options) addControlPlane(ctx context.Context, mgr manager.Manager) error {
	clients := o.providerClusters(o.controlPlane)

	return controlplanecontroller.AddToManagerWithOptions(ctx, mgr, controlplanecontroller.AddOptions{
		Controller:                o.controlPlane.Completed().Options(),
		IgnoreOperationAnnotation: o.reconciler.Completed().IgnoreOperationAnnotation,
		ExtensionClasses:          o.general.Completed().ExtensionClasses,
		WebhookServerNamespace:    o.webhookServer.Namespace,
		AllowInternalServers:      o.servers.AllowInternal,
		NewProviderCluster:        clients.New,
		Accepts:                   clients.Accepts,
		ShootWebhooks:             o.shootWebhooks,
	})
}

func (o *options) addWorker(ctx context.Context, mgr manager.Manager) error {
	return worker.AddToManagerWithOptions(ctx, mgr, worker.AddOptions{
		Controller:                o.worker.Completed().Options(),
		IgnoreOperationAnnotation: o.reconciler.Completed().IgnoreOperationAnnotation,
		ExtensionClasses:          o.general.Completed().ExtensionClasses,
		SelfHostedShootCluster:    o.general.Completed().SelfHostedShootCluster,
		GardenCluster:             o.garden,
		NewProviderCluster:        o.providerClusters(o.worker).New,
	})
}

func (o *options) addBastion(_ context.Context, mgr manager.Manager) error {
	return bastion.AddToManagerWithOptions(mgr, bastion.AddOptions{
		Controller:                o.bastion.Completed().Options(),
		IgnoreOperationAnnotation: o.reconciler.Completed().IgnoreOperationAnnotation,
		ExtensionClasses:          o.general.Completed().ExtensionClasses,
		NewProviderCluster:        o.providerClusters(o.bastion).New,
	})
}

func (o *options) addHealthChecks(_ context.Context, mgr manager.Manager) error {
	clients := o.providerClusters(o.healthCheck)

	return healthcheck.AddToManagerWithOptions(mgr, healthcheck.AddOptions{
		Controller:         o.healthCheck.Completed().Options(),
		Period:             o.healthCheckPeriod,
		ExtensionClasses:   o.general.Completed().ExtensionClasses,
		NewProviderCluster: clients.New,
		Accepts:            clients.Accepts,
	})
}

func (o *options) addHeartbeat(ctx context.Context, mgr manager.Manager) error {
	o.heartbeat.Completed().Apply(&heartbeat.DefaultAddOptions)

	return heartbeat.AddToManager(ctx, mgr)
}

func addChecks(mgr manager.Manager) error {
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return err
	}

	if err := mgr.AddReadyzCheck("informer-sync", gardenerhealthz.NewCacheSyncHealthz(mgr.GetCache())); err != nil {
		return err
	}

	return mgr.AddReadyzCheck("webhook-server", mgr.GetWebhookServer().StartedChecker())
}

// Package infrastructure reconciles Infrastructures: it creates the networks, the namespace and the
// NetworkPolicies of a shoot in the provider cluster, and writes into the status what the Worker
// needs of them. Everything that it creates has the shoot's label, by which it is deleted. The
// package must not know machines.
package infrastructure

import (
	"context"
	"fmt"
	"slices"

	extensionscontroller "github.com/gardener/gardener/extensions/pkg/controller"
	"github.com/gardener/gardener/extensions/pkg/controller/infrastructure"
	"github.com/gardener/gardener/extensions/pkg/util"
	"github.com/gardener/gardener/extensions/pkg/webhook/cloudprovider"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/errorcodes"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/kubevirt"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/ownership"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/providercluster"
)

// Options configure the controller.
type Options struct {
	// Controller are the options of controller-runtime.
	Controller controller.Options
	// IgnoreOperationAnnotation reconciles each change, even without gardenlet's operation annotation.
	IgnoreOperationAnnotation bool
	// ExtensionClasses are the classes of Infrastructures that this process reconciles.
	ExtensionClasses []extensionsv1alpha1.ExtensionClass
	// NewProviderCluster creates the clients of provider clusters.
	NewProviderCluster providercluster.Factory
}

// AddToManager adds the controller to a manager.
func AddToManager(ctx context.Context, mgr manager.Manager, options Options) error {
	return infrastructure.Add(mgr, infrastructure.AddArgs{
		Actuator:                  &actuator{seed: mgr.GetClient(), newProviderCluster: options.NewProviderCluster},
		ConfigValidator:           &configValidator{seed: mgr.GetClient()},
		ControllerOptions:         options.Controller,
		Predicates:                infrastructure.DefaultPredicates(ctx, mgr, options.IgnoreOperationAnnotation),
		Type:                      kubevirt.Type,
		KnownCodes:                errorcodes.Known,
		IgnoreOperationAnnotation: options.IgnoreOperationAnnotation,
		ExtensionClasses:          options.ExtensionClasses,
	})
}

type actuator struct {
	seed               client.Client
	newProviderCluster providercluster.Factory
}

// shoot is the infrastructure of one shoot.
type shoot struct {
	provider *providercluster.Cluster
	config   api.InfrastructureConfig
	// owner is the owner of all objects.
	owner ownership.Owner

	// offered are the shared networks of the CloudProfile; nil if all can be used.
	offered []api.OfferedNetwork
	// known are the networks of the last reconciliation, by name, and found are those of this one.
	known map[string]api.NetworkState
	found []api.NetworkState

	// record records in the seed that objects may exist in the provider cluster, before the first of them
	// is written; nil for a shoot that is only read.
	record func(context.Context) error

	// busy is the ErrBusy of an optional request, which was given up while other shoots waited; nil if there is none.
	busy error

	// namespace is the namespace of the kubeconfig: the namespace of the machines.
	namespace string
	// hasLoadBalancers and hasVolumes are set if Services and volumes of the shoot become objects of the
	// provider cluster.
	hasLoadBalancers, hasVolumes bool
}

// createsNamespace reports whether the shoot has a namespace of its own. The webhook of package
// cloudprovider has written it into the kubeconfig.
func (s *shoot) createsNamespace() bool {
	return s.config.Namespace != nil && s.config.Namespace.Create
}

// configPath is the path of the InfrastructureConfig in the Shoot.
func configPath() *field.Path { return field.NewPath("spec", "provider", "infrastructureConfig") }

// shootOf returns the infrastructure of a shoot. It ignores errors of the configuration, which the
// configValidator reports, so that they do not prevent deletion.
func (a *actuator) shootOf(ctx context.Context, infra *extensionsv1alpha1.Infrastructure, cluster *extensionscontroller.Cluster) (*shoot, error) {
	provider, err := a.newProviderCluster(ctx, a.seed, infra.Spec.SecretRef)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", credentialsPath(), err)
	}

	s := newShoot(provider, infra, cluster)
	s.record = func(ctx context.Context) error { return a.recordWrite(ctx, infra, s.namespace) }

	if err := s.checkNamespace(infra); err != nil {
		provider.Close()

		return nil, err
	}

	return s, nil
}

func newShoot(provider *providercluster.Cluster, infra *extensionsv1alpha1.Infrastructure, cluster *extensionscontroller.Cluster) *shoot {
	s := &shoot{provider: provider, owner: ownership.Of(cluster.Shoot), namespace: provider.Namespace, known: knownNetworks(infra)}
	_ = api.Decode(infra.Spec.ProviderConfig, configPath(), &s.config)

	controlPlane := &api.ControlPlaneConfig{}
	profile := &api.CloudProfileConfig{}
	_ = api.Decode(cluster.Shoot.Spec.Provider.ControlPlaneConfig, nil, controlPlane) // The ControlPlane reports errors.

	if cluster.CloudProfile != nil {
		if errs := api.Decode(cluster.CloudProfile.Spec.ProviderConfig, nil, profile); len(errs) > 0 && profile.SharedNetworks == nil {
			profile.SharedNetworks = []api.OfferedNetwork{} // The list may be the error.
		}
	}

	s.offered = profile.SharedNetworks
	s.hasLoadBalancers = controlPlane.LoadBalancer == nil || !controlPlane.LoadBalancer.Disabled
	s.hasVolumes = slices.ContainsFunc(profile.VolumeClasses, func(c api.VolumeClass) bool { return c.ExposeAs != "" })

	return s
}

// unchangedError is the error of a kubeconfig that the webhook did not change. Nothing is written with it.
type unchangedError struct{ error }

// checkNamespace returns an error if the kubeconfig does not point to the shoot's namespace.
func (s *shoot) checkNamespace(infra *extensionsv1alpha1.Infrastructure) error {
	if s.createsNamespace() && s.namespace != s.owner.TechnicalID {
		return &unchangedError{fmt.Errorf("the namespace of the kubeconfig in the Secret %s is %s instead of %s: the extension's webhook %s did not change it; check that the webhook is registered, and reconcile the Shoot",
			infra.Spec.SecretRef.Name, s.namespace, s.owner.TechnicalID, cloudprovider.WebhookName)}
	}

	status := &api.InfrastructureStatus{}
	_ = api.Decode(infra.Status.ProviderStatus, nil, status) // A newer version may have written it.

	if status.Namespace == "" || status.Namespace == s.namespace {
		return nil
	}

	return errorOf([]fault{{gardencorev1beta1.ErrorConfigurationProblem, credentialsPath(), fmt.Sprintf(
		"the machines of the shoot are in namespace %s of the provider cluster, but the credentials and infrastructureConfig.namespace point to namespace %s; "+
			"a shoot cannot move to another namespace: restore the previous setting", status.Namespace, s.namespace)}})
}

// Reconcile implements infrastructure.Actuator.
func (a *actuator) Reconcile(
	ctx context.Context, _ logr.Logger, infra *extensionsv1alpha1.Infrastructure, cluster *extensionscontroller.Cluster,
) error {
	r, err := runningMachines(ctx, a.seed, cluster, infra.Namespace)
	if err != nil {
		return err
	}

	return a.reconcile(ctx, infra, cluster, r)
}

func (a *actuator) reconcile(ctx context.Context, infra *extensionsv1alpha1.Infrastructure, cluster *extensionscontroller.Cluster, r *running) error {
	err := providercluster.Explain(a.reconcileObjects(ctx, infra, cluster, r))

	return util.DetermineError(err, errorcodes.Known)
}

func (a *actuator) reconcileObjects(ctx context.Context, infra *extensionsv1alpha1.Infrastructure, cluster *extensionscontroller.Cluster, r *running) error {
	s, err := a.shootOf(ctx, infra, cluster)
	if err != nil {
		return err
	}

	defer s.provider.Close()

	if err := s.reconcileNamespace(ctx); err != nil {
		return err
	}

	if err := s.check(ctx, infra.Spec.Region, cluster, r); err != nil {
		return err
	}

	if err := s.record(ctx); err != nil {
		return err
	}

	networks, err := s.reconcileNetworks(ctx, r)
	if err != nil {
		return err
	}

	if err := s.reconcileIsolation(ctx); err != nil {
		return err
	}

	return a.updateStatus(ctx, infra, cluster, &api.InfrastructureStatus{
		TypeMeta:  api.TypeMeta("InfrastructureStatus"),
		Namespace: s.namespace,
		Networks:  networks,
	}, &api.InfrastructureState{TypeMeta: api.TypeMeta("InfrastructureState"), Networks: s.found})
}

// Migrate implements infrastructure.Actuator: the provider cluster has all state.
func (*actuator) Migrate(context.Context, logr.Logger, *extensionsv1alpha1.Infrastructure, *extensionscontroller.Cluster) error {
	return nil
}

// Restore implements infrastructure.Actuator. Another seed has written the objects, and the machines
// run: nothing is new. Older versions of the extension did not record the networks in the state.
func (a *actuator) Restore(
	ctx context.Context, _ logr.Logger, infra *extensionsv1alpha1.Infrastructure, cluster *extensionscontroller.Cluster,
) error {
	if err := a.recordWrite(ctx, infra, ""); err != nil {
		return err
	}

	return a.reconcile(ctx, infra, cluster, &running{everything: true, unrecorded: infra.Status.State == nil})
}

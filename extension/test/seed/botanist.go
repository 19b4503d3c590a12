// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package seed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/Masterminds/semver/v3"
	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"github.com/gardener/gardener/pkg/component/extensions/infrastructure"
	"github.com/gardener/gardener/pkg/component/extensions/operatingsystemconfig"
	"github.com/gardener/gardener/pkg/component/extensions/worker"
	"github.com/gardener/gardener/pkg/component/nodemanagement/machinecontrollermanager"
	"github.com/gardener/gardener/pkg/extensions"
	operation "github.com/gardener/gardener/pkg/gardenlet/operation/shoot"
	gardenerutils "github.com/gardener/gardener/pkg/utils/gardener"
	secretsmanager "github.com/gardener/gardener/pkg/utils/secrets/manager/fake"
	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// providerType is the type of the extension.
const providerType = "kubevirt"

// project is the project of all shoots.
const project = "dev"

// simulatedUserData are those of guests that read none.
const simulatedUserData = "#cloud-config\nhostname: <<MACHINE_NAME>>\ntoken: <<BOOTSTRAP_TOKEN>>\n"

// Botanist is a shoot on the seed, and the work for it that gardenlet calls a botanist.
type Botanist struct {
	// Object and Profile are what gardenlet reads from the garden cluster, with defaults. Changes take
	// effect with the next call of Reconcile.
	Object  *gardencorev1beta1.Shoot
	Profile *gardencorev1beta1.CloudProfile
	// Namespace is the technical ID: the namespace in the seed.
	Namespace string
	// ProviderNamespace is the namespace of the machines in the provider cluster.
	ProviderNamespace string
	// Kubeconfig is the kubeconfig with the current credentials.
	Kubeconfig []byte
	// HasControlPlane is set if the shoot has a ControlPlane. All shoots of a seed have one cluster for
	// their Nodes: only one shoot at a time can deploy its system components there.
	HasControlPlane bool
	// UserData is the user data of all machines; if it is empty, they get some that guests do not use.
	UserData string
	// Progress is called before each task of an operation, with the percentage of the completed ones.
	Progress func(task string, percent int32)
	// Repeats is called with an error after which an operation goes on, as gardenlet repeats it; nil to end the
	// operation with its first error.
	Repeats func(error)

	seed    *Seed
	account Account
	// bound is the Secret to which the token of Kubeconfig is bound.
	bound *corev1.Secret
	// StopPods ends the pods of the shoot's namespace in the seed, and returns their errors (ReportErrors). It does
	// nothing when it is called again.
	StopPods func() error
}

// NewBotanist creates the namespaces and the credentials of a shoot, as gardenlet and a user do. Nothing
// is reconciled yet.
func (s *Seed) NewBotanist(ctx context.Context, object *gardencorev1beta1.Shoot, profile *gardencorev1beta1.CloudProfile, account Account) (*Botanist, error) {
	object.Status.TechnicalID = gardenerutils.ComputeTechnicalID(project, object)
	gardencorev1beta1.SetObjectDefaults_Shoot(object)
	gardencorev1beta1.SetObjectDefaults_CloudProfile(profile)

	shoot := &Botanist{
		Object:            object,
		Profile:           profile,
		Namespace:         object.Status.TechnicalID,
		ProviderNamespace: account.namespace,
		seed:              s,
		account:           account,
		Repeats:           func(error) {},
	}
	if account == AccountForNamespaces() {
		shoot.ProviderNamespace = shoot.Namespace
	}

	return shoot, shoot.prepare(ctx)
}

// prepare creates what exists in a seed before the extension's resources. gardenlet's flow runs it
// for each seed to which the shoot moves.
func (s *Botanist) prepare(ctx context.Context) error {
	for _, step := range []func(context.Context) error{s.createNamespace, s.Sync, s.writeCredentials, s.writeGenericKubeconfig, s.writeShootKubeconfig} {
		if err := step(ctx); err != nil {
			return err
		}
	}

	s.runPods(ctx)

	return nil
}

func (s *Botanist) createNamespace(ctx context.Context) error {
	return s.seed.namespace(ctx, s.Namespace, map[string]string{
		v1beta1constants.GardenRole:         v1beta1constants.GardenRoleShoot,
		v1beta1constants.LabelSeedProvider:  "local",
		v1beta1constants.LabelShootProvider: providerType,
	})
}

// runPods runs the pods of the shoot's namespace until StopPods is called.
func (s *Botanist) runPods(ctx context.Context) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error)

	go func() { ended <- s.seed.runDeployment(ctx, s.Namespace) }()
	go func() { ended <- s.seed.runControlPlane(ctx, s.Namespace) }()
	go func() { ended <- s.seed.runLoadBalancers(ctx, s.Namespace, s.ProviderNamespace) }()
	go func() { ended <- s.seed.runVolumes(ctx, s.Namespace, s.ProviderNamespace) }()

	s.StopPods = sync.OnceValue(func() error {
		cancel()

		return errors.Join(<-ended, <-ended, <-ended, <-ended)
	})
}

// Sync writes the Cluster, from which the extension reads the Shoot and the CloudProfile.
func (s *Botanist) Sync(ctx context.Context) error {
	s.Object.Generation++

	return s.writeCluster(ctx)
}

func (s *Botanist) writeCluster(ctx context.Context) error {
	return extensions.SyncClusterResourceToSeed(ctx, s.seed.Client, s.Namespace, s.Object, s.Profile, &gardencorev1beta1.Seed{
		ObjectMeta: metav1.ObjectMeta{Name: "seed"},
	})
}

// Reconcile does what gardenlet does when a Shoot was created or changed, and waits until its machines
// are as the Shoot wants them.
func (s *Botanist) Reconcile(ctx context.Context) error {
	var (
		infra   = s.Infrastructure()
		workers worker.Interface
	)

	return s.perform(ctx,
		task{"Syncing shoot cluster information to seed", s.Sync},
		task{"Deploying Shoot infrastructure", infra.Deploy},
		task{"Waiting until shoot infrastructure has been reconciled", func(ctx context.Context) error { return s.awaitInfrastructure(ctx, infra) }},
		task{"Waiting until shoot control plane has been reconciled", func(ctx context.Context) error { return s.forControlPlane(ctx, deploy, s.awaitControlPlane) }},
		task{"Deploying machine-controller-manager", func(ctx context.Context) error { return s.deployMachineControllerManager(ctx, false) }},
		task{"Configuring shoot worker pools", func(ctx context.Context) (err error) {
			if workers, err = s.Worker(ctx); err != nil {
				return err
			}

			return workers.Deploy(ctx)
		}},
		task{"Waiting until shoot worker nodes have been reconciled", func(ctx context.Context) error { return s.await(ctx, workers.Wait) }},
		task{"Finishing the reconciliation", s.finish},
	)
}

// finish ends a reconciliation: machine-controller-manager is not needed in a hibernated shoot.
func (s *Botanist) finish(ctx context.Context) error {
	s.Object.Status.IsHibernated = s.hibernated()
	s.Object.Status.LastOperation = &gardencorev1beta1.LastOperation{
		Type:           gardencorev1beta1.LastOperationTypeReconcile,
		State:          gardencorev1beta1.LastOperationStateSucceeded,
		Progress:       100,
		LastUpdateTime: metav1.Now(),
	}

	if err := s.Sync(ctx); err != nil {
		return err
	}

	return s.deployMachineControllerManager(ctx, false)
}

func (s *Botanist) hibernated() bool {
	h := s.Object.Spec.Hibernation

	return h != nil && h.Enabled != nil && *h.Enabled
}

// Infrastructure returns gardenlet's deployer of the Infrastructure.
func (s *Botanist) Infrastructure() infrastructure.Interface {
	return infrastructure.New(log, s.seed.Client, &infrastructure.Values{
		Namespace:         s.Namespace,
		Name:              s.Object.Name,
		Type:              providerType,
		ProviderConfig:    s.Object.Spec.Provider.InfrastructureConfig,
		Region:            s.Object.Spec.Region,
		AnnotateOperation: true,
	}, waitInterval, infrastructure.DefaultSevereThreshold, infrastructure.DefaultTimeout)
}

// awaitInfrastructure waits for the Infrastructure, and takes the networks from its status, as gardenlet does
// (pkg/gardenlet/operation/botanist/infrastructure.go). The error for networks that it cannot use is gardenlet's own.
func (s *Botanist) awaitInfrastructure(ctx context.Context, infra infrastructure.Interface) error {
	if err := s.await(ctx, infra.Wait); err != nil {
		return err
	}

	s.Object.Status.Networking = &gardencorev1beta1.NetworkingStatus{
		Nodes:       infra.NodesCIDRs(),
		Pods:        infra.PodsCIDRs(),
		Services:    infra.ServicesCIDRs(),
		EgressCIDRs: infra.EgressCIDRs(),
	}

	if nodes := infra.NodesCIDRs(); s.Object.Spec.Networking.Nodes == nil && len(nodes) > 0 {
		s.Object.Spec.Networking.Nodes = &nodes[0]
	}

	if err := s.writeCluster(ctx); err != nil {
		return err
	}

	_, err := operation.ToNetworks(s.Object, v1beta1helper.IsWorkerless(s.Object))

	return wrap(err, "read the networks of the shoot")
}

// Worker returns gardenlet's deployer of the Worker, after it wrote the user data of all pools as
// an extension for an operating system does.
func (s *Botanist) Worker(ctx context.Context) (worker.Interface, error) {
	version, err := semver.NewVersion(s.Object.Spec.Kubernetes.Version)
	if err != nil {
		return nil, err
	}

	configs := map[string]*operatingsystemconfig.OperatingSystemConfigs{}

	for _, pool := range s.Object.Spec.Provider.Workers {
		if configs[pool.Name], err = s.operatingSystemConfig(ctx, &pool, version); err != nil {
			return nil, err
		}
	}

	infra := &extensionsv1alpha1.Infrastructure{}
	if err := s.seed.Client.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: s.Object.Name}, infra); client.IgnoreNotFound(err) != nil {
		return nil, err
	}

	return worker.New(log, s.seed.Client, &worker.Values{
		Namespace:                    s.Namespace,
		Name:                         s.Object.Name,
		Type:                         providerType,
		Region:                       s.Object.Spec.Region,
		Workers:                      s.Object.Spec.Provider.Workers,
		KubernetesVersion:            version,
		MachineTypes:                 s.Profile.Spec.MachineTypes,
		InfrastructureProviderStatus: infra.Status.ProviderStatus,
		WorkerPoolNameToOperatingSystemConfigsMap: configs,
	}, waitInterval, worker.DefaultSevereThreshold, worker.DefaultTimeout), nil
}

// operatingSystemConfig writes the Secret with a pool's user data. The name of gardener-node-agent's
// Secret is part of the hash of the pool's classes, and changes with what Gardener rolls machines for.
func (s *Botanist) operatingSystemConfig(
	ctx context.Context, pool *gardencorev1beta1.Worker, version *semver.Version,
) (*operatingsystemconfig.OperatingSystemConfigs, error) {
	name := "osc-result-" + pool.Name
	agent := "gardener-node-agent-" + pool.Name
	if !v1beta1helper.IsUpdateStrategyInPlace(pool.UpdateStrategy) {
		agent = operatingsystemconfig.Key(version, nil, pool, false, s.Object.Spec.Kubernetes.Kubelet, nil)
	}

	return &operatingsystemconfig.OperatingSystemConfigs{Init: operatingsystemconfig.Data{
		GardenerNodeAgentSecretName: agent,
		SecretName:                  &name,
	}}, s.writeSecret(ctx, name, nil, map[string][]byte{extensionsv1alpha1.OperatingSystemConfigSecretDataKey: []byte(cmp.Or(s.UserData, simulatedUserData))})
}

// deployMachineControllerManager deploys machine-controller-manager with as many replicas as gardenlet.
// A restoration starts without it: the extension starts it when the Machines are restored.
func (s *Botanist) deployMachineControllerManager(ctx context.Context, restoring bool) error {
	replicas, err := s.replicas(ctx, restoring)
	if err != nil {
		return err
	}

	return s.machineControllerManager(replicas).Deploy(ctx)
}

func (s *Botanist) machineControllerManager(replicas int32) machinecontrollermanager.Interface {
	return machinecontrollermanager.New(s.seed.Client, s.Namespace, secretsmanager.New(s.seed.Client, s.Namespace), machinecontrollermanager.Values{
		Image:    "machine-controller-manager",
		Replicas: replicas,
	})
}

func (s *Botanist) replicas(ctx context.Context, restoring bool) (int32, error) {
	deployments := &machinev1alpha1.MachineDeploymentList{}
	if err := s.seed.Client.List(ctx, deployments, client.InNamespace(s.Namespace)); err != nil {
		return 0, fmt.Errorf("list MachineDeployments: %w", err)
	}

	for _, d := range deployments.Items {
		if d.Status.Replicas > 0 {
			return 1, nil
		}
	}

	if restoring || s.hibernated() && (s.Object.Status.IsHibernated || s.Object.Status.LastOperation == nil) {
		return 0, nil
	}

	return 1, nil
}

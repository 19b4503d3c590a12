// Package providercluster is the PluginSPI on a provider cluster: it ensures, observes, awaits and deletes the objects of a
// machine. cmd/machine-controller hands it to pkg/kubevirt. It must not know machine-controller-manager, nor its codes.
//
// Reads are live and waiting is a watch of single objects: a component that deletes machines must not trust a cache.
package providercluster

import (
	"context"
	"time"

	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/utils/clock"
	cdiclient "kubevirt.io/client-go/containerizeddataimporter/typed/core/v1beta1"
	kubevirtclient "kubevirt.io/client-go/kubevirt/typed/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/images"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerid"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// Options are the provider's dependencies and limits. All are required.
type Options struct {
	// Clients makes clients from kubeconfigs.
	Clients *providerapi.Cache
	// Images manages the golden images.
	Images *images.Manager
	// Clock is the time by which grace periods are judged.
	Clock clock.Clock
	// InitializeWait is how long InitializeMachine waits for the machine to be scheduled.
	InitializeWait time.Duration
	// UnschedulableGrace is how long a failure must have stood before it is reported: one of capacity as long as this, one that
	// the provider cluster retries by itself twice as long.
	UnschedulableGrace time.Duration
	// OrphanGracePeriod is how long a machine must have been seen to have no Machine object before it is removed.
	OrphanGracePeriod time.Duration
	// OrphanMemory is how far apart two such sightings may be. It exceeds the period at which orphans are looked for.
	OrphanMemory time.Duration
	// MaxDeleteWait bounds how long DeleteMachine waits for any guest, DeleteSlack included: machine-controller-manager asks again.
	MaxDeleteWait time.Duration
	// MaxWaiting is how many calls of InitializeMachine may wait at the same time; the others look once.
	MaxWaiting int
	// NeedAddress makes a machine count as scheduled only when it has an address: without a target cluster nobody asks
	// for the address again.
	NeedAddress bool
}

// Provider implements spi.PluginSPI and spi.Explainer.
type Provider struct {
	options Options
	waiters chan struct{}
	loop    *creationLoop
	orphans *orphanage
	files   *files
}

var (
	_ spi.PluginSPI = (*Provider)(nil)
	_ spi.Explainer = (*Provider)(nil)
)

// New returns a provider.
func New(options Options) *Provider {
	return &Provider{
		options: options,
		waiters: make(chan struct{}, options.MaxWaiting),
		loop:    newCreationLoop(options.Clock),
		orphans: newOrphanage(options.Clock, options.OrphanMemory),
		files:   newFiles(options.Clock),
	}
}

// session is the provider cluster and namespace that one call works on.
type session struct {
	clients *providerapi.Clients
	// dryRun, if it is set, has what is created and updated judged, and not carried out.
	dryRun []string
	// unread says what of the evidence could not be read, and why.
	unread []string
}

func (p *Provider) connect(raw []byte) (*session, error) {
	clients, err := p.options.Clients.For(raw)
	if err != nil {
		return nil, &spi.Error{Kind: spi.ErrInvalid, Message: err.Error(), Remedy: "correct the kubeconfig", Kubeconfig: true, Cause: err}
	}

	return &session{clients: clients}, nil
}

// request sends one request, as providerapi.Clients.Request does.
func (s *session) request(ctx context.Context, what string, send func(context.Context) error) error {
	return s.clients.Request(ctx, what, send)
}

// look reads one object, as providerapi.Clients.Look does.
func (s *session) look(ctx context.Context, what string, read func(context.Context) error) error {
	return s.clients.Look(ctx, what, read)
}

func (s *session) virtualMachines() kubevirtclient.VirtualMachineInterface {
	return s.clients.KubeVirt.KubevirtV1().VirtualMachines(s.clients.Namespace)
}

func (s *session) instances() kubevirtclient.VirtualMachineInstanceInterface {
	return s.clients.KubeVirt.KubevirtV1().VirtualMachineInstances(s.clients.Namespace)
}

func (s *session) dataVolumes() cdiclient.DataVolumeInterface {
	return s.dataVolumesIn(s.clients.Namespace)
}

func (s *session) dataVolumesIn(namespace string) cdiclient.DataVolumeInterface {
	return s.clients.CDI.CdiV1beta1().DataVolumes(namespace)
}

func (s *session) events() corev1client.EventInterface {
	return s.clients.Kubernetes.CoreV1().Events(s.clients.Namespace)
}

func (s *session) pods() corev1client.PodInterface {
	return s.clients.Kubernetes.CoreV1().Pods(s.clients.Namespace)
}

func (s *session) secrets() corev1client.SecretInterface {
	return s.clients.Kubernetes.CoreV1().Secrets(s.clients.Namespace)
}

func machineNamed(name string) *spi.Machine {
	return &spi.Machine{Name: name, ProviderID: providerid.Format(name)}
}

// Package spi is the contract between the MachinePlugin, which speaks machine-controller-manager's language, and the layer
// that makes machines real on a provider cluster. pkg/kubevirt calls it, pkg/spi/providercluster implements it. It holds
// interfaces, plain structs and sentinel errors, and must not know machine-controller-manager, nor any client.
package spi

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
)

// PluginSPI makes, observes and removes machines on a provider cluster. Its methods set their own time limits, are safe for
// concurrent use and safe to be killed at any instruction: calling them again converges. Errors wrap one of the package's
// sentinels and never carry secret bytes. Inputs are never mutated.
type PluginSPI interface {
	// CreateMachine creates the user data Secret and then the VirtualMachine, or adopts them if they are this machine's.
	CreateMachine(ctx context.Context, in *CreateMachineInput) (*Machine, error)
	// InitializeMachine waits, for a bounded time, until the machine is scheduled. It returns nil if the machine is
	// scheduled or merely slow, and the diagnosed cause if it cannot be.
	InitializeMachine(ctx context.Context, in *ObserveMachineInput) (*Machine, error)
	// GetMachineStatus looks at the machine once. With ErrUninitialized, and only then, machine and error are both non-nil.
	GetMachineStatus(ctx context.Context, in *ObserveMachineInput) (*Machine, error)
	// DeleteMachine removes the machine and returns nil once the VirtualMachine and its VirtualMachineInstance are gone. It returns a
	// MovedError, and deletes nothing, until the record of a machine that was moved names its present address.
	DeleteMachine(ctx context.Context, in *DeleteMachineInput) error
	// ListMachines returns the machines that carry exactly this identity's tags.
	ListMachines(ctx context.Context, in *ListMachinesInput) ([]Machine, error)
}

// Identity are the tags that make an object on the provider cluster one of ours: both must match.
type Identity struct {
	// Cluster is the shoot's technical ID, from the tag v1alpha1.TagCluster.
	Cluster string
	// Role is the machines' role, from the tag v1alpha1.TagRole.
	Role string
}

// Valid says whether both tags are there and can be label values. Only then is an identity a selector: what is no label value,
// a selector's parser reads as something else.
func (id Identity) Valid() bool {
	return id.Cluster != "" && id.Role != "" &&
		len(validation.IsValidLabelValue(id.Cluster)) == 0 && len(validation.IsValidLabelValue(id.Role)) == 0
}

// Machine is a machine as it stands on the provider cluster.
type Machine struct {
	// Name is the name of the VirtualMachine, which is the Machine's, and the node's.
	Name string
	// ProviderID is providerid.Format(Name).
	ProviderID string
	// Addresses are those of the primary network interface, as far as they are known.
	Addresses []corev1.NodeAddress
	// Reached says how far the machine has come. Only GetMachineStatus tells.
	Reached Reached
	// Address is where its VirtualMachine is. Only CreateMachine and ListMachines tell.
	Address Address
}

// Reached says when a machine came how far, in whole seconds of the provider cluster's clock. What is zero has not happened, or nobody
// knows when.
type Reached struct {
	// Created is when the VirtualMachine was made.
	Created time.Time
	// Disks is when its disks were there, and a pod for it.
	Disks time.Time
	// Scheduled is when a host had taken it.
	Scheduled time.Time
	// Running is when its guest had begun to run.
	Running time.Time
}

// CreateMachineInput is what a machine is made of.
type CreateMachineInput struct {
	// Kubeconfig is the untrusted kubeconfig of the provider cluster.
	Kubeconfig []byte
	// Name is the Machine's name, a DNS label.
	Name string
	// UID is the Machine's UID.
	UID types.UID
	// Deployment is the name of the machine's MachineDeployment; empty if it has none.
	Deployment string
	// WorkerPool is the name of the shoot's worker pool; empty if it has none.
	WorkerPool string
	// Architecture is the guest's CPU architecture in Go's terms (amd64, arm64, …); empty: KubeVirt decides.
	Architecture string
	// UserData is what cloud-init reads, with the bootstrap token in it.
	UserData []byte
	// Spec is a valid ProviderSpec.
	Spec *v1alpha1.ProviderSpec
	// Evacuation says that somebody acts when the machine is to leave its provider node: an Evacuator's user.
	Evacuation bool
	// Report takes the machine's progress.
	Report Report
}

// Identity returns the identity that the machine's objects carry.
func (in *CreateMachineInput) Identity() Identity {
	return Identity{Cluster: in.Spec.Tags[v1alpha1.TagCluster], Role: in.Spec.Tags[v1alpha1.TagRole]}
}

// Image returns what decides over the golden image that the machine is cloned from, if its spec uses one.
func (in *CreateMachineInput) Image() Image {
	return Image{Spec: in.Spec, Architecture: in.Architecture}
}

// ObserveMachineInput says which machine to look at, and what is already known of it.
type ObserveMachineInput struct {
	// Kubeconfig is the untrusted kubeconfig of the provider cluster.
	Kubeconfig []byte
	// Name is the Machine's name.
	Name string
	// Identity is what the machine's objects must carry.
	Identity Identity
	// Deleting says that the Machine is being deleted.
	Deleting bool
	// HasProviderID says that machine-controller-manager has persisted the machine's provider ID.
	HasProviderID bool
	// Recorded is what the Machine records of its address; nil: nothing.
	Recorded *AddressRecord
	// CreationTimeout is how long the machine may take until machine-controller-manager replaces it.
	CreationTimeout time.Duration
	// Image is what the machine's class says of its golden image, for InitializeMachine to repair; nil if it is not known.
	Image *Image
	// Report takes the machine's progress.
	Report Report
}

// DeleteMachineInput says which machine to remove. It needs no ProviderSpec, so that a broken one does not keep machines alive.
type DeleteMachineInput struct {
	// Kubeconfig is the untrusted kubeconfig of the provider cluster.
	Kubeconfig []byte
	// Name is the Machine's name.
	Name string
	// Identity is what the machine's objects must carry.
	Identity Identity
	// HasProviderID says that machine-controller-manager has persisted the machine's provider ID.
	HasProviderID bool
	// Recorded is what the Machine records of its address; nil: nothing.
	Recorded *AddressRecord
	// Orphan says that no Machine object is known for this machine: it was found by ListMachines only.
	Orphan bool
}

// ListMachinesInput says which machines to list.
type ListMachinesInput struct {
	// Kubeconfig is the untrusted kubeconfig of the provider cluster.
	Kubeconfig []byte
	// Identity selects the machines. Both parts are required.
	Identity Identity
}

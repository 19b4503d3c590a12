// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package spi is the contract between the MachinePlugin, which implements
// machine-controller-manager's interface, and the layer that manages machines on a provider
// cluster. pkg/kubevirt calls it, pkg/providercluster implements it. It contains
// interfaces, plain structs and sentinel errors, and must not depend on
// machine-controller-manager, nor on any client.
package spi

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/goldenimage"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
)

// PluginSPI creates, observes and deletes machines on a provider cluster. Its methods set their own
// time limits, are safe for concurrent use and safe to be killed at any instruction: calling them
// again converges. Errors wrap one of the package's sentinels and never contain secret bytes. They
// never modify their inputs.
type PluginSPI interface {
	// CreateMachine creates the user data Secret and then the VirtualMachine, or adopts them if
	// they belong to this machine.
	CreateMachine(ctx context.Context, in *CreateMachineInput) (*Machine, error)
	// InitializeMachine waits, for a bounded time, until the machine is scheduled.
	// It returns nil if the machine is scheduled or merely slow, and the diagnosed
	// cause if it cannot be scheduled.
	InitializeMachine(ctx context.Context, in *ObserveMachineInput) (*Machine, error)
	// GetMachineStatus checks the machine once. With ErrUninitialized, and only then, machine and
	// error are both non-nil.
	GetMachineStatus(ctx context.Context, in *ObserveMachineInput) (*Machine, error)
	// DeleteMachine deletes the machine and returns nil once the VirtualMachine and its
	// VirtualMachineInstance are gone. It returns a MovedError, and deletes nothing, until the
	// Machine of a machine that was moved records its present address.
	DeleteMachine(ctx context.Context, in *DeleteMachineInput) error
	// ListMachines returns the machines that have exactly this identity's tags.
	ListMachines(ctx context.Context, in *ListMachinesInput) ([]Machine, error)
}

// Identity is the pair of tags that marks an object on the provider cluster as managed by this
// driver: both must match.
type Identity struct {
	// Cluster is the shoot's technical ID, from the tag v1alpha1.TagCluster.
	Cluster string
	// Role is the role of the machines, from the tag v1alpha1.TagRole.
	Role string
}

// Valid reports whether both tags are set and can be label values. Only then is an identity a
// selector: a selector's parser misreads any other value.
func (id Identity) Valid() bool {
	return id.Cluster != "" && id.Role != "" &&
		len(validation.IsValidLabelValue(id.Cluster)) == 0 && len(validation.IsValidLabelValue(id.Role)) == 0
}

// Machine is the state of a machine on the provider cluster.
type Machine struct {
	// Name is the name of the VirtualMachine, the Machine and the node.
	Name string
	// ProviderID is providerid.Format(Name).
	ProviderID string
	// Addresses are the known addresses of the primary network interface.
	Addresses []corev1.NodeAddress
	// Reached is the machine's progress. It is set only by GetMachineStatus.
	Reached Reached
	// Address is the address of its VirtualMachine. It is set only by
	// CreateMachine and ListMachines.
	Address Address
}

// Reached holds the times of a machine's progress, in whole seconds of the provider cluster's
// clock. A time is zero if the step has not been reached, or its time is not known.
type Reached struct {
	// Created is when the VirtualMachine was created.
	Created time.Time
	// Disks is when its disks and its pod had been created.
	Disks time.Time
	// Scheduled is when virt-handler on its provider node had taken it over.
	Scheduled time.Time
	// Running is when its guest had started.
	Running time.Time
}

// CreateMachineInput is the specification of a machine.
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
	// Architecture is the guest's CPU architecture in Go's terms (amd64, arm64,
	// …); if empty, KubeVirt decides.
	Architecture string
	// UserData is the input of cloud-init, with the bootstrap token in it.
	UserData []byte
	// Spec is a valid ProviderSpec.
	Spec *v1alpha1.ProviderSpec
	// Class is the machine's MachineClass.
	Class Class
	// Evacuation is set if the driver evacuates the machine when its
	// provider node is drained.
	Evacuation bool
	// LogConsole is whether to log the guest's serial console, unless the spec's template says otherwise; nil
	// to leave it to the provider cluster.
	LogConsole *bool
	// Migratable is set if the machine is known to be able to live-migrate. Then KubeVirt evacuates it,
	// also while the driver does not run. CreateMachine of the PluginSPI sets it.
	Migratable bool
	// Report receives the machine's progress.
	Report Report
}

// Identity returns the identity of the machine's objects.
func (in *CreateMachineInput) Identity() Identity {
	return Identity{Cluster: in.Spec.Tags[v1alpha1.TagCluster], Role: in.Spec.Tags[v1alpha1.TagRole]}
}

// Image returns the source of the golden image that the machine is
// cloned from, if its spec uses one.
func (in *CreateMachineInput) Image() goldenimage.Source {
	return goldenimage.Source{Spec: in.Spec, Architecture: in.Architecture}
}

// ObserveMachineInput identifies the machine to observe, with the state that is already known.
type ObserveMachineInput struct {
	// Kubeconfig is the untrusted kubeconfig of the provider cluster.
	Kubeconfig []byte
	// Name is the Machine's name.
	Name string
	// Identity is the identity that the machine's objects must have.
	Identity Identity
	// Deleting is set if the Machine is being deleted.
	Deleting bool
	// HasProviderID is set if machine-controller-manager has persisted the machine's provider ID.
	HasProviderID bool
	// Recorded is the address that the Machine records; nil if there is none.
	Recorded *RecordedAddress
	// CreationTimeout is how long the machine may take before
	// machine-controller-manager replaces it.
	CreationTimeout time.Duration
	// Image determines the golden image of the MachineClass, for InitializeMachine to repair; nil if
	// it is not known.
	Image *goldenimage.Source
	// Report receives the machine's progress.
	Report Report
}

// DeleteMachineInput identifies the machine to delete. It needs no ProviderSpec, so that an invalid
// ProviderSpec does not prevent the deletion.
type DeleteMachineInput struct {
	// Kubeconfig is the untrusted kubeconfig of the provider cluster.
	Kubeconfig []byte
	// Name is the Machine's name.
	Name string
	// Identity is the identity that the machine's objects must have.
	Identity Identity
	// HasProviderID is set if machine-controller-manager has persisted the machine's provider ID.
	HasProviderID bool
	// Recorded is the address that the Machine records; nil if there is none.
	Recorded *RecordedAddress
	// Orphan is set if no Machine object is known for this machine: only ListMachines found it.
	Orphan bool
	// Class is the machine's MachineClass. If it is being deleted, golden images that are no longer
	// needed are deleted too.
	Class Class
	// Image determines the golden image of the MachineClass; nil if the MachineClass cannot be decoded.
	Image *goldenimage.Source
}

// ListMachinesInput selects the machines to list.
type ListMachinesInput struct {
	// Kubeconfig is the untrusted kubeconfig of the provider cluster.
	Kubeconfig []byte
	// Identity selects the machines. Both parts are required.
	Identity Identity
	// Class is the MachineClass for which machine-controller-manager lists. Golden images that are
	// no longer needed are deleted.
	Class Class
	// Image determines the golden image of the MachineClass; nil if the MachineClass cannot be decoded.
	Image *goldenimage.Source
}

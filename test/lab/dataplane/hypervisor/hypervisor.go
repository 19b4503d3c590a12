// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package hypervisor is the contract between the data plane and real guests: virtual machines that boot, and volumes with
// content.
//
// The data plane's virt-handler, importer and CSI driver call it; test/lab/guest implements it. It must not depend on either.
package hypervisor

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

const (
	// GuestAnnotation of a VirtualMachineInstance (or of the template of its VirtualMachine) selects
	// how its guest runs. Without it, the guest is simulated.
	GuestAnnotation = "sim.lab/guest"
	// RealGuest is the value of GuestAnnotation for a guest that boots on the Hypervisor.
	RealGuest = "real"
	// ImportAnnotation of a provider Namespace selects how importer pods work. Without it, imports are
	// simulated, and volumes have no content.
	ImportAnnotation = "sim.lab/import"
	// RealImport is the value of ImportAnnotation for imports by CDI's code.
	RealImport = "real"
)

// Hypervisor boots the guests of VirtualMachineInstances with GuestAnnotation. Package guest has the
// implementation. No method waits for a guest: the data plane calls them again until the guest is in
// the desired state.
type Hypervisor interface {
	// Start begins to boot a guest, unless it has been started before.
	Start(boot Boot) error
	// Observe returns the state of a guest.
	Observe(instance types.UID) GuestState
	// PowerOff presses the power button of a running guest, unless this was done in the last seconds.
	PowerOff(instance types.UID) error
	// Kill ends a guest at once.
	Kill(ctx context.Context, instance types.UID) error
	Volumes
}

// Volumes holds the content of PersistentVolumes, which are identified by their names. A volume without
// content counts as blank, except as a root disk, which then contains the guests' image.
type Volumes interface {
	// CloneVolume copies the content of a volume.
	CloneVolume(ctx context.Context, from, to string) error
	// DeleteVolume removes the content of a volume.
	DeleteVolume(name string) error
	// Import runs an importer, unless it has been started before, and returns its result when it has
	// ended.
	Import(run ImporterRun) (result ImporterResult, ended bool)
}

// ImporterRun is one run of the container of CDI's importer pod.
type ImporterRun struct {
	ID      string            // unique
	Env     map[string]string // of the container
	Volume  string            // the PersistentVolume that it fills
	Scratch string            // that with its temporary files; empty if there is none
	CA      map[string][]byte // certificates of the source, by file names
}

// ImporterResult is how an importer ended.
type ImporterResult struct {
	Code    int32
	Message string // termination message
}

// Boot contains everything that a launcher pod would find.
type Boot struct {
	// Instance is the VirtualMachineInstance, with a MAC address for each interface. It must not be
	// modified.
	Instance *kubevirtv1.VirtualMachineInstance
	// Secrets are the values of the Secrets to which the instance refers, by name.
	Secrets map[string]map[string][]byte
	// Disks are the PersistentVolumes behind the instance's volumes, in the order of its disks.
	Disks []Disk
}

// Disk is a PersistentVolume attached to a guest.
type Disk struct {
	Volume           string // name of the instance's volume
	PersistentVolume string // name; identifies the content
	Size             int64  // bytes
}

// GuestState is a snapshot of a guest.
type GuestState struct {
	Started bool // Start was called
	Running bool // the hypervisor executes the guest
	End     GuestEnd
	Agent   *GuestAgent // nil until the guest agent has answered
}

// GuestEnd is how a guest ended.
type GuestEnd int

const (
	// GuestNotEnded is the value for a guest that has not ended.
	GuestNotEnded GuestEnd = iota
	// GuestShutDown means that the operating system has powered the guest off.
	GuestShutDown
	// GuestKilled means that Kill ended the guest.
	GuestKilled
	// GuestFailed means that the guest did not start, or that the hypervisor ended unexpectedly.
	GuestFailed
)

// GuestAgent contains the answers of a guest agent.
type GuestAgent struct {
	OS kubevirtv1.VirtualMachineInstanceGuestOSInfo
	// Interfaces are those with a MAC address.
	Interfaces []GuestInterface
}

// GuestInterface is a network interface as its guest sees it.
type GuestInterface struct {
	Name, MAC string
	IPs       []string
}

// IsReal reports whether a guest is to boot on the Hypervisor.
func IsReal(instance *kubevirtv1.VirtualMachineInstance) bool {
	return instance.Annotations[GuestAnnotation] == RealGuest
}

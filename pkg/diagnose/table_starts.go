// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"slices"

	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// starts are machines whose pod exists, but does not start.
var starts = []symptom{
	{
		// virt-controller (pkg/virt-controller/watch/node), and the state of the launcher pod.
		reason:  "NodeDown",
		kind:    spi.ErrUnavailable,
		grace:   retry,
		from:    []origin{instancePhase, launcherPod},
		reasons: []string{"NodeUnresponsive", reasonNodeSilent},
		remedy:  nodeRemedy,
	},
	{
		// KubeVirt, from kubelet's reasons (pkg/virt-controller/watch/vmi/lifecycle.go).
		reason:  "ImagePullFailed",
		kind:    spi.ErrPrecondition,
		grace:   retry,
		from:    []origin{instanceSync},
		reasons: []string{"ErrImagePull", "ImagePullBackOff"},
		remedy:  "check that the provider nodes can pull this image",
	},
	{
		// Kubelet's events (k8s.io/kubernetes/pkg/kubelet/events, pkg/kubelet/images).
		reason:  "ImagePullFailed",
		kind:    spi.ErrPrecondition,
		grace:   retry,
		from:    []origin{podEvent},
		reasons: []string{"Failed", "BackOff"},
		texts:   []string{"failed to pull ", "back-off pulling image", "error: errimagepull", "error: imagepullbackoff", "pull policy"},
		remedy:  "check that the provider nodes can pull this image",
	},
	{
		reason:  "SecretNotFound",
		kind:    spi.ErrPrecondition,
		grace:   retry,
		from:    []origin{podEvent},
		reasons: []string{"FailedMount"},
		texts:   []string{`secret "`, `secrets "`, `configmap "`, `configmaps "`},
		remedy:  "if it is the user data, delete the machine, so that it is recreated; otherwise, create the object",
	},
	{
		reason: "CrashLooping",
		kind:   spi.ErrPrecondition,
		grace:  retry,
		from:   []origin{machineStart},
		remedy: "check the events of the VirtualMachineInstance and the log of its launcher pod; the image may not be suitable for the machine",
	},
	{
		// Users and programs of the provider cluster, such as virtctl stop.
		reason: "MachineStopped",
		kind:   spi.ErrPrecondition,
		grace:  refusal,
		from:   []origin{machineSpec},
		remedy: "run " + command + " to start it again; to remove it, delete the Machine",
	},
	{
		// KubeVirt's run strategies (pkg/virt-controller/watch/vm/vm.go). It is final.
		reason: "GuestEnded",
		kind:   spi.ErrPrecondition,
		grace:  none,
		from:   []origin{guestEnd},
		remedy: "delete the Machine, so that it is replaced",
	},
}

// guests are machines that have a provider node, and whose guest does not run. The driver is called for
// them only in the seconds after they were scheduled, unless machine-controller-manager has no target cluster.
var guests = []symptom{
	{
		// virt-handler, which repeats the attempt (pkg/virt-handler/vm.go).
		reason:  "GuestNotStarted",
		kind:    spi.ErrPrecondition,
		grace:   retry,
		from:    []origin{guestSync, instanceEvent},
		reasons: []string{notSynchronized, syncFailed},
		remedy:  handlerRemedy,
	},
	{
		reason: "GuestNotStarted",
		kind:   spi.ErrPrecondition,
		grace:  obstruction,
		from:   []origin{guestStart},
		remedy: handlerRemedy,
	},
	{
		// libvirt, through virt-handler, which resumes the guest when its volume works again
		// (calculatePausedCondition in pkg/virt-handler/vm.go).
		reason:  "GuestPaused",
		kind:    spi.ErrPrecondition,
		grace:   refusal,
		from:    []origin{guestPause},
		reasons: []string{"PausedIOError"},
		remedy:  "repair the storage of the machine's volumes on the provider cluster: it is full, or does not respond. If the guest is not resumed then, run " + command,
	},
	{
		reason:  "GuestPaused",
		kind:    spi.ErrPrecondition,
		grace:   retry,
		from:    []origin{guestPause},
		reasons: []string{"PausedByUser"},
		remedy:  "run " + command,
	},
	{
		// KubeVirt itself pauses the guest to complete a live migration, which ends the pause.
		reason: "GuestPaused",
		kind:   spi.ErrPrecondition,
		grace:  obstruction,
		from:   []origin{guestPause},
		except: []string{"PausedByMigrationMonitor"},
		remedy: "run " + command,
	},
}

const handlerRemedy = "check the log of virt-handler on that provider node; if the node is at fault, delete the Machine, so that it is replaced"

// moves are machines that must leave their provider node and cannot: kubectl drain waits for them.
var moves = []symptom{
	{
		// The scheduler, about the target pod. The machine's required region and zone apply to it, too.
		reason:  "MigrationUnschedulable",
		kind:    spi.ErrExhausted,
		grace:   refusal,
		from:    []origin{migrationTarget},
		reasons: scheduled,
		remedy:  "add provider nodes with enough capacity to " + place + ", or uncordon a node there; " + shutDown,
	},
	{
		// virt-controller and virt-handler, about the last migration.
		reason:  "MigrationFailed",
		kind:    spi.ErrPrecondition,
		grace:   refusal,
		from:    []origin{migration},
		reasons: []string{string(kubevirtv1.MigrationFailed)},
		remedy:  "check the events of the migration and of its target pod on the provider cluster; " + shutDown,
	},
}

// shutDown is the way to end a drain at the expense of the guest.
const shutDown = "to shut the guest down instead, delete its VirtualMachineInstance"

// obstructions usually resolve themselves: they count only if they last.
var obstructions = []symptom{
	{
		// Kubernetes (k8s.io/kubernetes/pkg/controller/volume/events) and external-provisioner.
		reason:  "ProvisioningFailed",
		kind:    spi.ErrPrecondition,
		grace:   obstruction,
		from:    []origin{volumeEvent},
		reasons: []string{"ProvisioningFailed"},
		unless:  []string{"the object has been modified"},
		remedy:  "check the storage driver of the provider cluster",
	},
	{
		// CDI's message for an importer without a node (pkg/controller/datavolume/conditions.go).
		// The message is the same while the importer's volume does not exist, so the causes that
		// prevent its creation come first.
		reason:  Unschedulable,
		kind:    spi.ErrExhausted,
		grace:   obstruction,
		from:    []origin{volume},
		reasons: scheduled,
		remedy:  "free capacity for CDI's importer pod on the provider cluster",
	},
	{
		// The scheduler, about a host-assisted clone. Many of them at once can fill the nodes with pods that
		// receive, and wait for each other.
		reason: Unschedulable,
		kind:   spi.ErrExhausted,
		grace:  obstruction,
		from:   []origin{copyScheduler},
		unless: volumeProblem,
		remedy: "free capacity on the provider cluster: each copy of a volume needs two of CDI's pods at once. Let them request less " +
			"(podResourceRequirements in the configuration of the CDI resource), create fewer machines at once, or clone by the storage",
	},
	{
		reason:    "ImportFailed",
		kind:      spi.ErrPrecondition,
		grace:     start,
		from:      []origin{volume},
		condition: string(cdiv1beta1.DataVolumeRunning),
		reasons:   preparing,
		remedy:    "check the events of CDI's pods on the provider cluster",
	},
	{
		// Any other reason of a pod that does not run, which CDI passes on.
		reason:    "ImportFailed",
		kind:      spi.ErrPrecondition,
		grace:     obstruction,
		from:      []origin{volume},
		condition: string(cdiv1beta1.DataVolumeRunning),
		except:    slices.Concat(expected, preparing),
		remedy:    "check the DataVolume and CDI's pods on the provider cluster",
	},
	{
		// CDI (pkg/controller/clone/common.go).
		reason:  "CloneSourceInUse",
		kind:    spi.ErrTimeout,
		grace:   obstruction,
		from:    []origin{volumeEvent},
		reasons: []string{"CloneSourceInUse"},
		remedy:  "delete the pod that uses the source, or clone from another source",
	},
	{
		// The scheduler (k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumebinding).
		reason:  "VolumeNotBound",
		kind:    spi.ErrPrecondition,
		grace:   obstruction,
		from:    []origin{scheduler},
		reasons: scheduled,
		texts:   unbound,
		remedy:  "check the claims of the machine, and the storage driver of the provider cluster",
	},
	{
		// The scheduler (k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumerestrictions).
		reason:  "ClaimInUse",
		kind:    spi.ErrPrecondition,
		grace:   obstruction,
		from:    []origin{scheduler},
		reasons: scheduled,
		texts:   inUse,
		remedy:  "delete the pod that uses the claim, or name another claim",
	},
	{
		// Events of kubelet and the attach-detach controller.
		reason:  "VolumeMountFailed",
		kind:    spi.ErrPrecondition,
		grace:   obstruction,
		from:    []origin{podEvent},
		reasons: []string{"FailedMount", "FailedAttachVolume", "FailedMapVolume"},
		remedy:  "check the storage driver on the provider node",
	},
	{
		reason:  "NetworkSetupFailed",
		kind:    spi.ErrPrecondition,
		grace:   obstruction,
		from:    []origin{podEvent},
		reasons: []string{"FailedCreatePodSandBox"},
		remedy:  "check the network plugin on the provider node",
	},
	{
		// All other failures of KubeVirt (pkg/controller/controller.go).
		// Most are retried successfully.
		reason: "CreationFailed",
		kind:   spi.ErrPrecondition,
		grace:  obstruction,
		from:   creations,
		unless: []string{"pvc pending", "active migration exists"},
		remedy: "check the VirtualMachine and its events on the provider cluster",
	},
	{
		// Kubernetes, and the controllers of the finalizers, such as the snapshot controller.
		reason: "VolumeNotDeleted",
		kind:   spi.ErrTimeout,
		grace:  obstruction,
		from:   []origin{claimDeletion},
		remedy: "delete what the finalizer protects: a VolumeSnapshot of the claim, or a pod that uses it",
	},
	{
		// CDI, which reports what it does, but not why that takes long.
		reason: VolumeStalled,
		kind:   spi.ErrTimeout,
		grace:  obstruction,
		from:   []origin{volumeStall},
		remedy: "find what this step waits for: " + command,
	},
}

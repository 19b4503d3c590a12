// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"regexp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// table lists all causes. The first one that applies is returned: quota before capacity, capacity
// before objects that cannot be created, these before machines that do not start, and obstructions
// last. guests, moves and joining concern only machines with a provider node. If a text is compared, the comment names the component
// that writes it. Texts are in lower case.
var table = slices.Concat(capacity, refusals, storage, imports, starts, guests, moves, joining, obstructions)

var (
	creations = []origin{machineFailure, instanceSync}
	volumes   = []origin{volume, volumeEvent}
	scheduled = []string{corev1.PodReasonUnschedulable}
)

// The scheduler's messages (k8s.io/kubernetes/pkg/scheduler/framework/plugins): noderesources,
// nodeunschedulable and nodevolumelimits, then volumebinding, volumezone and volumerestrictions.
var (
	// noCapacity is reported for nodes that would be suitable if they were not full or cordoned.
	noCapacity = []string{"insufficient ", "too many pods", "node(s) were unschedulable", "node(s) exceed max volume count"}
	// zoneConflict is reported for volumes that the suitable nodes cannot access.
	zoneConflict = []string{"volume node affinity conflict", "didn't match persistentvolume's node affinity", "no available volume zone"}
	// unbound is reported for claims without a volume.
	unbound = []string{
		"unbound immediate persistentvolumeclaims", "didn't find available persistent volumes to bind", "had no pv name",
		"volumebindingmode not set",
	}
	// otherZone is reported for a clone into a zone other than that of its source. Each driver has
	// its own message, such as "CreateVolume disk zone a does not match source volume zone b"
	// (gcp-compute-persistent-disk-csi-driver).
	otherZone = regexp.MustCompile(`(?i)\b(source|clon\w*)\b.*\b(zones?|topolog\w*)\b|\b(zones?|topolog\w*)\b.*\b(source|clon\w*)\b`)
	// lost is reported for claims whose volume is gone, or is being deleted.
	lost = []string{`" bound to non-existent persistentvolume "`, "bound to non-existent pv(s)", `" is being deleted`, `persistentvolume "`}
	// inUse is reported for claims that only one pod may use.
	inUse = []string{"readwriteoncepod access mode already in-use", "node(s) had no available disk"}
	// missing is reported for claims and storage classes.
	missing = []string{`persistentvolumeclaim "`, `storageclass.storage.k8s.io "`}
	// volumeProblem is reported for volumes, and therefore only for nodes that have capacity.
	volumeProblem = slices.Concat(zoneConflict, unbound, lost, inUse, missing)
)

const (
	// Unschedulable is the reason of a machine that fits on no provider node.
	Unschedulable = "Unschedulable"
	// DataVolumeFailed is the reason of a volume that CDI has given up, or whose claim is lost.
	DataVolumeFailed = "DataVolumeFailed"
)

// capacity are the causes that make cluster-autoscaler back off.
var capacity = []symptom{
	{
		// Kubernetes' quota admission
		// (k8s.io/apiserver/pkg/admission/plugin/resourcequota/controller.go),
		// passed on by KubeVirt and CDI.
		reason: "QuotaExceeded",
		kind:   spi.ErrExhausted,
		grace:  refusal,
		from:   slices.Concat(creations, volumes),
		texts:  []string{"forbidden: exceeded quota"},
		remedy: "raise the ResourceQuota, or remove machines",
	},
	{
		// CDI's own reason, used where it hides the text (pkg/controller/common/util.go).
		reason:  "QuotaExceeded",
		kind:    spi.ErrExhausted,
		grace:   refusal,
		from:    []origin{volume},
		reasons: []string{"ErrExceededQuota"},
		remedy:  "raise the ResourceQuota, or remove machines",
	},
	{
		// virt-controller (pkg/virt-controller/watch/migration), which hides the text.
		reason:  "QuotaExceeded",
		kind:    spi.ErrExhausted,
		grace:   refusal,
		from:    []origin{migration},
		reasons: []string{reasonMigrationQuota},
		remedy:  "raise the ResourceQuota: a live migration needs a second pod for its duration",
	},
	{
		// A CSI driver's gRPC code for full storage (kubernetes-csi/external-provisioner).
		reason: "StorageExhausted",
		kind:   spi.ErrExhausted,
		grace:  retry,
		from:   volumes,
		texts:  []string{"code = resourceexhausted"},
		remedy: "add storage to the provider cluster, or use another storage class",
	},
	{
		// The scheduler, from the capacity that CSI drivers publish.
		// Such a node is otherwise suitable.
		reason:  "StorageExhausted",
		kind:    spi.ErrExhausted,
		grace:   refusal,
		from:    []origin{scheduler},
		reasons: scheduled,
		texts:   []string{"not have enough free storage"},
		remedy:  "add storage to the provider cluster, or use another storage class",
	},
	{
		reason:  "VirtualizationMissing",
		kind:    spi.ErrExhausted,
		grace:   refusal,
		from:    []origin{scheduler},
		reasons: scheduled,
		lacking: isHypervisor,
		unless:  volumeProblem,
		remedy:  "check that virt-handler runs on the provider nodes of " + place + ", and that they have hardware virtualization, or add such nodes",
	},
	{
		reason:  "InsufficientDevices",
		kind:    spi.ErrExhausted,
		grace:   refusal,
		from:    []origin{scheduler},
		reasons: scheduled,
		lacking: isDevice,
		unless:  volumeProblem,
		remedy:  "add provider nodes with this device to " + place + ", or request another device",
	},
	{
		reason:  Unschedulable,
		kind:    spi.ErrExhausted,
		grace:   refusal,
		from:    []origin{scheduler},
		reasons: scheduled,
		texts:   noCapacity,
		unless:  volumeProblem,
		remedy:  "add provider nodes to " + place + ", uncordon nodes there, or request less",
	},
	{
		reason:  Unschedulable,
		kind:    spi.ErrExhausted,
		grace:   refusal,
		from:    []origin{scheduler},
		reasons: scheduled,
		unless:  volumeProblem,
		remedy:  "no node in " + place + " matches the machine's node affinity and tolerations; correct the region or the zone, or add such nodes",
	},
}

// refusals are objects that KubeVirt could not create, or was not allowed to.
var refusals = []symptom{
	{
		reason:  "VolumeZoneConflict",
		kind:    spi.ErrPrecondition,
		grace:   refusal,
		from:    []origin{scheduler},
		reasons: scheduled,
		texts:   zoneConflict,
		remedy: "if the volumes belong to " + place + ", free capacity there; otherwise, use a storage class with binding mode WaitForFirstConsumer, and images that " +
			"every zone can read",
	},
	{
		// KubeVirt's own check of the permission to clone (pkg/virt-controller/watch/vm/vm.go).
		reason: "CloneForbidden",
		kind:   spi.ErrForbidden,
		grace:  refusal,
		from:   []origin{machineFailure},
		texts:  []string{"not authorized to create datavolume"},
		remedy: "in the source's namespace, grant create on datavolumes/source to the service account in the message",
	},
	{
		// KubeVirt (pkg/instancetype/controller/vm/controller.go).
		reason:  "InstancetypeNotFound",
		kind:    spi.ErrPrecondition,
		grace:   refusal,
		from:    []origin{machineFailure},
		reasons: []string{"FailedFindInstancetype"},
		remedy:  "create the instancetype on the provider cluster, or name another one",
	},
	{
		reason:  "PreferenceNotFound",
		kind:    spi.ErrPrecondition,
		grace:   refusal,
		from:    []origin{machineFailure},
		reasons: []string{"FailedFindPreference"},
		remedy:  "create the preference on the provider cluster, or name another one",
	},
	{
		// KubeVirt, resolving a sourceRef (pkg/virt-controller/watch/util).
		reason: "DataSourceNotFound",
		kind:   spi.ErrPrecondition,
		grace:  refusal,
		from:   []origin{machineFailure},
		texts:  []string{"unable to create datavolume manifest"},
		remedy: "create the DataSource that sourceRef names, or name another one",
	},
	{
		// Kubernetes (k8s.io/pod-security-admission/admission).
		reason: "PodSecurityViolated",
		kind:   spi.ErrPrecondition,
		grace:  refusal,
		texts:  []string{"violates podsecurity"},
		remedy: "label the provider namespace pod-security.kubernetes.io/enforce=privileged, which launcher pods need",
	},
	{
		// Kubernetes (k8s.io/kubernetes/plugin/pkg/admission/priority).
		reason: "PriorityClassNotFound",
		kind:   spi.ErrPrecondition,
		grace:  refusal,
		texts:  []string{"no priorityclass with name"},
		remedy: "create the PriorityClass on the provider cluster, or name another one",
	},
	{
		// KubeVirt (pkg/network/multus), and Multus in its events.
		reason: "NetworkNotFound",
		kind:   spi.ErrPrecondition,
		grace:  refusal,
		from:   []origin{instanceSync, podEvent},
		texts: []string{
			"failed to locate network attachment definition", "cannot find a network-attachment-definition",
			`network-attachment-definitions.k8s.cni.cncf.io "`,
		},
		remedy: "create the NetworkAttachmentDefinition on the provider cluster, or name another network",
	},
	{
		// The API server, about a webhook that does not respond
		// (k8s.io/apiserver/pkg/util/webhook).
		reason: "WebhookUnavailable",
		kind:   spi.ErrUnavailable,
		grace:  retry,
		texts:  []string{"failed calling webhook"},
		remedy: "repair the webhook in the message, or the component behind it",
	},
	{
		// Kubernetes, about a pod whose limits and requests come partly from a LimitRange
		// (k8s.io/kubernetes/pkg/apis/core/validation, plugin/pkg/admission/limitranger). KubeVirt has
		// accepted those of the class.
		reason: "LimitRangeViolated",
		kind:   spi.ErrPrecondition,
		grace:  refusal,
		from:   creations,
		texts: []string{
			"must be less than or equal to memory limit", "must be less than or equal to cpu limit", "must be less than or equal to ephemeral-storage limit",
			" usage per container is ", " usage per pod is ", "limit to request ratio per container is ", "limit to request ratio per pod is ",
		},
		remedy: "change the LimitRange of the provider namespace, which sets or bounds the value in the message, or set resources in the MachineClass",
	},
	{
		// The webhooks of KubeVirt and CDI, as the API server names them, and KubeVirt's own check
		// of networks (pkg/virt-controller/watch/vmi/lifecycle.go).
		reason: "InstanceInvalid",
		kind:   spi.ErrInvalid,
		grace:  refusal,
		from:   creations,
		texts:  []string{`.kubevirt.io" denied the request`, "failed create validation", "\" is invalid: "},
		remedy: "correct the MachineClass",
	},
	{
		// Any other webhook or admission plugin (k8s.io/apiserver/pkg/admission).
		reason: "PolicyViolated",
		kind:   spi.ErrPrecondition,
		grace:  refusal,
		from:   creations,
		texts:  []string{"denied the request", "is forbidden"},
		remedy: "ask the administrator of the provider cluster for an exception from the policy in the message",
	},
}

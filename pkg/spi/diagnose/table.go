package diagnose

import (
	"regexp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// table lists all causes. The first one that applies is returned: quota before capacity, capacity
// before objects that cannot be created, these before machines that do not start, and obstructions
// last. moves concern only running machines. If a text is compared, the comment names the component
// that writes it. Texts are in lower case.
var table = slices.Concat(capacity, refusals, storage, imports, starts, moves, obstructions)

var (
	creations = []origin{machineFailure, instanceSync}
	volumes   = []origin{volume, volumeEvent}
	scheduled = []string{corev1.PodReasonUnschedulable}
	// failing are CDI's reasons for the failure of one of its own pods, sender or receiver
	// (pkg/controller/datavolume/conditions.go, pkg/controller/import-controller.go).
	failing = []string{"Error", "Error and Error", "ImagePullFailed", "ChecksumError", "Failed"}
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
		reason: "QuotaExceeded", kind: spi.ErrExhausted, grace: refusal, from: slices.Concat(creations, volumes),
		texts:  []string{"forbidden: exceeded quota"},
		remedy: "raise the ResourceQuota, or remove machines",
	},
	{
		// CDI's own reason, used where it hides the text (pkg/controller/common/util.go).
		reason: "QuotaExceeded", kind: spi.ErrExhausted, grace: refusal, from: []origin{volume}, reasons: []string{"ErrExceededQuota"},
		remedy: "raise the ResourceQuota, or remove machines",
	},
	{
		// virt-controller (pkg/virt-controller/watch/migration), which hides the text.
		reason: "QuotaExceeded", kind: spi.ErrExhausted, grace: refusal, from: []origin{migration}, reasons: []string{reasonMigrationQuota},
		remedy: "raise the ResourceQuota: a live migration needs a second pod for its duration",
	},
	{
		// A CSI driver's gRPC code for full storage (kubernetes-csi/external-provisioner).
		reason: "StorageExhausted", kind: spi.ErrExhausted, grace: retry, from: volumes, texts: []string{"code = resourceexhausted"},
		remedy: "add storage to the provider cluster, or use another storage class",
	},
	{
		// The scheduler, from the capacity that CSI drivers publish.
		// Such a node is otherwise suitable.
		reason: "StorageExhausted", kind: spi.ErrExhausted, grace: refusal, from: []origin{scheduler}, reasons: scheduled,
		texts:  []string{"not have enough free storage"},
		remedy: "add storage to the provider cluster, or use another storage class",
	},
	{
		reason: "VirtualizationMissing", kind: spi.ErrExhausted, grace: refusal, from: []origin{scheduler}, reasons: scheduled, lacking: isHypervisor,
		unless: volumeProblem, remedy: "check that virt-handler runs on the provider nodes of " + place + ", and that they have hardware virtualization, or add such nodes",
	},
	{
		reason: "InsufficientDevices", kind: spi.ErrExhausted, grace: refusal, from: []origin{scheduler}, reasons: scheduled, lacking: isDevice,
		unless: volumeProblem, remedy: "add provider nodes with this device to " + place + ", or request another device",
	},
	{
		reason: Unschedulable, kind: spi.ErrExhausted, grace: refusal, from: []origin{scheduler}, reasons: scheduled, texts: noCapacity,
		unless: volumeProblem, remedy: "add provider nodes to " + place + ", uncordon nodes there, or request less",
	},
	{
		reason: Unschedulable, kind: spi.ErrExhausted, grace: refusal, from: []origin{scheduler}, reasons: scheduled, unless: volumeProblem,
		remedy: "no node of " + place + " has the labels that the machine requires and only taints that it tolerates; correct the region or the zone, " +
			"or add such nodes",
	},
}

// refusals are objects that KubeVirt could not create, or was not allowed to.
var refusals = []symptom{
	{
		reason: "VolumeZoneConflict", kind: spi.ErrPrecondition, grace: refusal, from: []origin{scheduler}, reasons: scheduled, texts: zoneConflict,
		remedy: "if the volumes belong to " + place + ", free capacity there; otherwise, use a storage class with binding mode WaitForFirstConsumer, and images that " +
			"every zone can read",
	},
	{
		// KubeVirt's own check of the permission to clone (pkg/virt-controller/watch/vm/vm.go).
		reason: "CloneForbidden", kind: spi.ErrForbidden, grace: refusal, from: []origin{machineFailure},
		texts:  []string{"not authorized to create datavolume"},
		remedy: "in the source's namespace, grant create on datavolumes/source to the service account in the message",
	},
	{
		// KubeVirt (pkg/instancetype/controller/vm/controller.go).
		reason: "InstancetypeNotFound", kind: spi.ErrPrecondition, grace: refusal, from: []origin{machineFailure},
		reasons: []string{"FailedFindInstancetype"}, remedy: "create the instancetype on the provider cluster, or name another one",
	},
	{
		reason: "PreferenceNotFound", kind: spi.ErrPrecondition, grace: refusal, from: []origin{machineFailure},
		reasons: []string{"FailedFindPreference"}, remedy: "create the preference on the provider cluster, or name another one",
	},
	{
		// KubeVirt, resolving a sourceRef (pkg/virt-controller/watch/util).
		reason: "DataSourceNotFound", kind: spi.ErrPrecondition, grace: refusal, from: []origin{machineFailure},
		texts: []string{"unable to create datavolume manifest"}, remedy: "create the DataSource that sourceRef names, or name another one",
	},
	{
		// Kubernetes (k8s.io/pod-security-admission/admission).
		reason: "PodSecurityViolated", kind: spi.ErrPrecondition, grace: refusal, texts: []string{"violates podsecurity"},
		remedy: "label the provider namespace pod-security.kubernetes.io/enforce=privileged, which launcher pods need",
	},
	{
		// Kubernetes (k8s.io/kubernetes/plugin/pkg/admission/priority).
		reason: "PriorityClassNotFound", kind: spi.ErrPrecondition, grace: refusal, texts: []string{"no priorityclass with name"},
		remedy: "create the PriorityClass on the provider cluster, or name another one",
	},
	{
		// KubeVirt (pkg/network/multus), and Multus in its events.
		reason: "NetworkNotFound", kind: spi.ErrPrecondition, grace: refusal, from: []origin{instanceSync, podEvent},
		texts: []string{
			"failed to locate network attachment definition", "cannot find a network-attachment-definition",
			`network-attachment-definitions.k8s.cni.cncf.io "`,
		},
		remedy: "create the NetworkAttachmentDefinition on the provider cluster, or name another network",
	},
	{
		// The API server, about a webhook that does not respond
		// (k8s.io/apiserver/pkg/util/webhook).
		reason: "WebhookUnavailable", kind: spi.ErrUnavailable, grace: retry, texts: []string{"failed calling webhook"},
		remedy: "repair the webhook in the message, or the component behind it",
	},
	{
		// The webhooks of KubeVirt and CDI, as the API server names them, and KubeVirt's own check
		// of networks (pkg/virt-controller/watch/vmi/lifecycle.go).
		reason: "InstanceInvalid", kind: spi.ErrInvalid, grace: refusal, from: creations,
		texts:  []string{`.kubevirt.io" denied the request`, "failed create validation", "\" is invalid: "},
		remedy: "correct the MachineClass",
	},
	{
		// Any other webhook or admission plugin (k8s.io/apiserver/pkg/admission).
		reason: "PolicyViolated", kind: spi.ErrPrecondition, grace: refusal, from: creations, texts: []string{"denied the request", "is forbidden"},
		remedy: "ask the administrator of the provider cluster for an exception from the policy in the message",
	},
}

// storage are volumes that cannot be created.
var storage = []symptom{
	{
		// KubeVirt (pkg/virt-controller/watch/vmi), and the scheduler.
		reason: "ClaimNotFound", kind: spi.ErrPrecondition, grace: retry, from: []origin{instanceSync}, reasons: []string{"FailedPvcNotFound"},
		remedy: "create the PersistentVolumeClaim on the provider cluster, or name another one",
	},
	{
		reason: "ClaimNotFound", kind: spi.ErrPrecondition, grace: retry, from: []origin{scheduler}, texts: []string{`persistentvolumeclaim "`},
		unless: lost, remedy: "create the PersistentVolumeClaim on the provider cluster, or name another one",
	},
	{
		// CSI drivers of zonal storage, through external-provisioner. It is retried forever.
		reason: "CloneZoneConflict", kind: spi.ErrPrecondition, grace: retry, from: []origin{volumeEvent},
		reasons: []string{"ProvisioningFailed"}, pattern: otherZone,
		remedy: "clone from a source that every zone can read: https://github.com/gardener/machine-controller-manager-provider-kubevirt/blob/main/docs/golden-images.md#zonal-storage",
	},
	{
		// CDI (pkg/controller/datavolume/clone-controller-base.go,
		// pkg/controller/clone/planner.go).
		reason: "CloneSourceNotFound", kind: spi.ErrPrecondition, grace: retry, from: volumes, reasons: []string{"CloneWithoutSource"},
		remedy: "create the source on the provider cluster, or name another one",
	},
	{
		// CDI's validation of clones, and its summary of an importer's message about a full disk
		// (pkg/controller/util.go).
		reason: "VolumeTooSmall", kind: spi.ErrInvalid, grace: retry, from: volumes,
		texts:  []string{"smaller than the source", "datavolume too small", "no space left on device", "is larger than the reported available"},
		remedy: "request a larger volume",
	},
	{
		reason: "CloneRefused", kind: spi.ErrPrecondition, grace: retry, from: volumes,
		reasons: []string{"CloneValidationFailed", "ErrUnableToClone", "ErrIncompatiblePVC"}, remedy: "use a compatible source and volume",
	},
	{
		// CDI (pkg/controller/datavolume/util.go), Kubernetes' volume controller in
		// its events, and the scheduler.
		reason: "StorageClassNotFound", kind: spi.ErrPrecondition, grace: retry, from: append([]origin{scheduler}, volumes...),
		texts:  []string{"no storageclass to choose profile", `storageclass.storage.k8s.io "`},
		remedy: "create the storage class on the provider cluster, or name another one",
	},
	{
		reason: "ClaimInvalid", kind: spi.ErrInvalid, grace: retry, from: volumes, reasons: []string{"ErrClaimNotValid"},
		remedy: "set an access mode and a volume mode that the storage class supports",
	},
}

// imports are images that cannot be imported. The texts come from the importer, and from the
// servers that it contacts (CDI, pkg/importer).
var imports = []symptom{
	{
		reason: "ImageNotFound", kind: spi.ErrPrecondition, grace: retry, from: []origin{volume}, reasons: failing,
		texts:  []string{"got 404", "404 not found", "manifest unknown", "name unknown: ", "nosuchkey: ", "nosuchbucket: "},
		remedy: "correct the image's address, or upload the image",
	},
	{
		reason: "ImageUnauthorized", kind: spi.ErrPrecondition, grace: retry, from: []origin{volume}, reasons: failing,
		texts: []string{
			"got 401", "got 403", "401 unauthorized", "403 forbidden", "(unauthorized)", "unauthorized: ", "access to the resource is denied",
			"accessdenied: ", "authentication required",
		},
		remedy: "correct the Secret with the credentials of the image's source (secretRef)",
	},
	{
		reason: "ImageCertificateUntrusted", kind: spi.ErrPrecondition, grace: retry, from: []origin{volume}, reasons: failing,
		texts:  []string{"x509: ", "ssl certificate", "certificate verify failed", "certificate subject name"},
		remedy: "name a ConfigMap with the CA of the image's source (certConfigMap)",
	},
	{
		reason: "ImageUnreachable", kind: spi.ErrPrecondition, grace: retry, from: []origin{volume}, reasons: failing,
		texts: []string{
			"no such host", "could not resolve host", "connection refused", "connection reset", "no route to host", "network is unreachable",
			"deadline exceeded", "i/o timeout", "handshake timeout", "timeout awaiting", "timeout exceeded", "gateway timeout", "timed out", "timeout was reached",
		},
		remedy: "check that pods on the provider cluster can reach the image's source",
	},
	{
		// CDI, about its importer's own image or a source that the nodes pull
		// (pkg/controller/util.go).
		reason: "ImagePullFailed", kind: spi.ErrPrecondition, grace: retry, from: []origin{volume}, reasons: []string{"ImagePullFailed"},
		remedy: "check that the provider nodes can pull this image",
	},
	{
		reason: "ImageCorrupt", kind: spi.ErrPrecondition, grace: retry, from: []origin{volume}, reasons: failing,
		texts:  []string{"checksum mismatch", "checksum validation failed"},
		remedy: "correct the image or its checksum; a golden image is then imported again automatically, any other DataVolume when it is deleted",
	},
	{
		reason: DataVolumeFailed, kind: spi.ErrPrecondition, grace: retry, from: []origin{scheduler}, reasons: scheduled, texts: lost,
		remedy: "delete the machine, so that its volumes are recreated",
	},
	{
		reason: DataVolumeFailed, kind: spi.ErrPrecondition, grace: retry, from: []origin{volume}, reasons: []string{"Failed", "ClaimLost"},
		remedy: "delete the machine, so that its volumes are recreated; a golden image is recreated automatically",
	},
	{
		reason: "ImportFailed", kind: spi.ErrPrecondition, grace: retry, from: []origin{volume}, reasons: append([]string{"ErrStartingPod"}, failing...),
		remedy: "check the DataVolume and CDI's pods on the provider cluster",
	},
}

// starts are machines whose pod exists, but does not start.
var starts = []symptom{
	{
		// virt-controller (pkg/virt-controller/watch/node), and the state of the launcher pod.
		reason: "NodeDown", kind: spi.ErrUnavailable, grace: retry, from: []origin{instancePhase, launcherPod},
		reasons: []string{"NodeUnresponsive", reasonNodeSilent}, remedy: nodeRemedy,
	},
	{
		// KubeVirt, from kubelet's reasons (pkg/virt-controller/watch/vmi/lifecycle.go).
		reason: "ImagePullFailed", kind: spi.ErrPrecondition, grace: retry, from: []origin{instanceSync},
		reasons: []string{"ErrImagePull", "ImagePullBackOff"}, remedy: "check that the provider nodes can pull this image",
	},
	{
		// Kubelet's events (k8s.io/kubernetes/pkg/kubelet/events, pkg/kubelet/images).
		reason: "ImagePullFailed", kind: spi.ErrPrecondition, grace: retry, from: []origin{podEvent}, reasons: []string{"Failed", "BackOff"},
		texts:  []string{"failed to pull ", "back-off pulling image", "error: errimagepull", "error: imagepullbackoff", "pull policy"},
		remedy: "check that the provider nodes can pull this image",
	},
	{
		reason: "SecretNotFound", kind: spi.ErrPrecondition, grace: retry, from: []origin{podEvent}, reasons: []string{"FailedMount"},
		texts:  []string{`secret "`, `secrets "`, `configmap "`, `configmaps "`},
		remedy: "if it is the user data, delete the machine, so that it is recreated; otherwise, create the object",
	},
	{
		reason: "CrashLooping", kind: spi.ErrPrecondition, grace: retry, from: []origin{machineStart},
		remedy: "check the guest's console and the log of its launcher pod; the image may not be suitable for the machine",
	},
}

// moves are machines that must leave their provider node and cannot: kubectl drain waits for them.
var moves = []symptom{
	{
		// The scheduler, about the target pod. The machine's required region and zone apply to it, too.
		reason: "MigrationUnschedulable", kind: spi.ErrExhausted, grace: refusal, from: []origin{migrationTarget}, reasons: scheduled,
		remedy: "add provider nodes with enough capacity to " + place + ", or uncordon a node there; " + shutDown,
	},
	{
		// virt-controller and virt-handler, about the last migration.
		reason: "MigrationFailed", kind: spi.ErrPrecondition, grace: refusal, from: []origin{migration}, reasons: []string{string(kubevirtv1.MigrationFailed)},
		remedy: "check the events of the migration and of its target pod on the provider cluster; " + shutDown,
	},
}

// shutDown is the way to end a drain at the expense of the guest.
const shutDown = "to shut the guest down instead, delete its VirtualMachineInstance"

// obstructions usually resolve themselves: they count only if they last.
var obstructions = []symptom{
	{
		// Kubernetes (k8s.io/kubernetes/pkg/controller/volume/events) and external-provisioner.
		reason: "ProvisioningFailed", kind: spi.ErrPrecondition, grace: obstruction, from: []origin{volumeEvent},
		reasons: []string{"ProvisioningFailed"}, unless: []string{"the object has been modified"},
		remedy: "check the storage driver of the provider cluster",
	},
	{
		// CDI's message for an importer without a node (pkg/controller/datavolume/conditions.go).
		// The message is the same while the importer's volume does not exist, so the causes that
		// prevent its creation come first.
		reason: Unschedulable, kind: spi.ErrExhausted, grace: obstruction, from: []origin{volume}, reasons: scheduled,
		remedy: "free capacity for CDI's importer pod on the provider cluster",
	},
	{
		// CDI (pkg/controller/clone/common.go).
		reason: "CloneSourceInUse", kind: spi.ErrTimeout, grace: obstruction, from: []origin{volumeEvent}, reasons: []string{"CloneSourceInUse"},
		remedy: "delete the pod that uses the source, or clone from another source",
	},
	{
		// The scheduler (k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumebinding).
		reason: "VolumeNotBound", kind: spi.ErrPrecondition, grace: obstruction, from: []origin{scheduler}, reasons: scheduled,
		texts: unbound, remedy: "check the claims of the machine, and the storage driver of the provider cluster",
	},
	{
		// The scheduler (k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumerestrictions).
		reason: "ClaimInUse", kind: spi.ErrPrecondition, grace: obstruction, from: []origin{scheduler}, reasons: scheduled, texts: inUse,
		remedy: "delete the pod that uses the claim, or name another claim",
	},
	{
		// Kubelet, and the attach-detach controller, in their events.
		reason: "VolumeMountFailed", kind: spi.ErrPrecondition, grace: obstruction, from: []origin{podEvent},
		reasons: []string{"FailedMount", "FailedAttachVolume", "FailedMapVolume"}, remedy: "check the storage driver on the provider node",
	},
	{
		reason: "NetworkSetupFailed", kind: spi.ErrPrecondition, grace: obstruction, from: []origin{podEvent}, reasons: []string{"FailedCreatePodSandBox"},
		remedy: "check the network plugin on the provider node",
	},
	{
		// All other failures of KubeVirt (pkg/controller/controller.go).
		// Most are retried successfully.
		reason: "CreationFailed", kind: spi.ErrPrecondition, grace: obstruction, from: creations,
		unless: []string{"pvc pending", "active migration exists"},
		remedy: "check the VirtualMachine and its events on the provider cluster",
	},
}

// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

var (
	// failing are CDI's reasons for the failure of one of its own pods (pkg/controller/util.go,
	// pkg/controller/import-controller.go).
	failing = []string{"Error", "ImagePullFailed", "ChecksumError", "Failed"}
	// notStarting lists other reasons of kubelet and the container runtime, passed on by CDI, for pods that
	// fail to start.
	notStarting = []string{
		"CreateContainerConfigError", "CreateContainerError", "RunContainerError", "StartError", "ContainerCannotRun", "ContainerStatusUnknown",
		"DeadlineExceeded", "Evicted", "NodeLost",
	}
	// preparing lists reasons of kubelet for pods that are about to start, which can take as long as an
	// image pull.
	preparing = []string{"ContainerCreating", "PodInitializing"}
	// expected are the reasons of pods that CDI is about to create, create again or delete. "Pod is running" remains while an
	// importer that has failed waits for its next start, if CDI has not seen how it ended (pkg/controller/util.go).
	expected = []string{"", "Pending", "Completed", "Scratch space required", "Pod is running", corev1.PodReasonUnschedulable}
	// tooSmall is reported by CDI's validation of clones, by its importer about a full disk, and in its
	// summary of that message (pkg/controller/util.go).
	tooSmall = []string{"smaller than the source", "datavolume too small", "no space left on device", "is larger than the reported available"}
)

// storage are volumes that cannot be created.
var storage = []symptom{
	{
		// KubeVirt (pkg/virt-controller/watch/vmi), and the scheduler.
		reason:  "ClaimNotFound",
		kind:    spi.ErrPrecondition,
		grace:   retry,
		from:    []origin{instanceSync},
		reasons: []string{"FailedPvcNotFound"},
		remedy:  "create the PersistentVolumeClaim on the provider cluster, or name another one",
	},
	{
		reason: "ClaimNotFound",
		kind:   spi.ErrPrecondition,
		grace:  retry,
		from:   []origin{scheduler},
		texts:  []string{`persistentvolumeclaim "`},
		unless: lost,
		remedy: "create the PersistentVolumeClaim on the provider cluster, or name another one",
	},
	{
		// CSI drivers of zonal storage, through external-provisioner. It is retried forever.
		reason:  "CloneZoneConflict",
		kind:    spi.ErrPrecondition,
		grace:   retry,
		from:    []origin{volumeEvent},
		reasons: []string{"ProvisioningFailed"},
		pattern: otherZone,
		remedy:  "clone from a source that every zone can read: https://github.com/gardener/machine-controller-manager-provider-kubevirt/blob/main/docs/images.md#zonal-storage",
	},
	{
		// CDI (pkg/controller/datavolume/clone-controller-base.go,
		// pkg/controller/clone/planner.go).
		reason:  "CloneSourceNotFound",
		kind:    spi.ErrPrecondition,
		grace:   retry,
		from:    volumes,
		reasons: []string{"CloneWithoutSource"},
		remedy:  "create the source on the provider cluster, or name another one",
	},
	{
		// The state of an importer, and CDI's annotation. It explains that the volume is too small.
		reason:  "ImportOutOfMemory",
		kind:    spi.ErrPrecondition,
		grace:   retry,
		from:    []origin{volume, importKill},
		reasons: []string{killed, importFailed},
		remedy: "raise the memory limit of CDI's pods (podResourceRequirements in the configuration of the CDI resource); then delete the DataVolume, " +
			"unless it is being imported: a golden image is created again automatically",
	},
	{
		reason: "VolumeTooSmall",
		kind:   spi.ErrInvalid,
		grace:  retry,
		from:   volumes,
		texts:  tooSmall,
		remedy: "request a larger volume",
	},
	{
		reason:  "CloneRefused",
		kind:    spi.ErrPrecondition,
		grace:   retry,
		from:    volumes,
		reasons: []string{"CloneValidationFailed", "ErrUnableToClone", "ErrIncompatiblePVC"},
		remedy:  "use a compatible source and volume",
	},
	{
		// CDI (pkg/controller/datavolume/util.go), Kubernetes' volume controller in
		// its events, and the scheduler.
		reason: "StorageClassNotFound",
		kind:   spi.ErrPrecondition,
		grace:  retry,
		from:   append([]origin{scheduler}, volumes...),
		texts:  []string{"no storageclass to choose profile", `storageclass.storage.k8s.io "`},
		remedy: "create the storage class on the provider cluster, or name another one",
	},
	{
		reason:  "ClaimInvalid",
		kind:    spi.ErrInvalid,
		grace:   retry,
		from:    volumes,
		reasons: []string{"ErrClaimNotValid"},
		remedy:  "set an access mode and a volume mode that the storage class supports",
	},
}

// imports are images that cannot be imported. The texts come from the importer, and from the
// servers that it contacts (CDI, pkg/importer).
var imports = []symptom{
	{
		reason:  "ImageNotFound",
		kind:    spi.ErrPrecondition,
		grace:   retry,
		from:    []origin{volume},
		reasons: failing,
		texts:   []string{"got 404", "404 not found", "manifest unknown", "name unknown: ", "nosuchkey: ", "nosuchbucket: "},
		remedy:  "correct the image's address, or upload the image",
	},
	{
		reason:  "ImageUnauthorized",
		kind:    spi.ErrPrecondition,
		grace:   retry,
		from:    []origin{volume},
		reasons: failing,
		texts: []string{
			"got 401", "got 403", "401 unauthorized", "403 forbidden", "(unauthorized)", "unauthorized: ", "access to the resource is denied",
			"accessdenied: ", "authentication required",
		},
		remedy: "correct the Secret with the credentials of the image's source (secretRef)",
	},
	{
		reason:  "ImageCertificateUntrusted",
		kind:    spi.ErrPrecondition,
		grace:   retry,
		from:    []origin{volume},
		reasons: failing,
		texts:   []string{"x509: ", "ssl certificate", "certificate verify failed", "certificate subject name"},
		remedy:  "name a ConfigMap with the CA of the image's source (certConfigMap)",
	},
	{
		reason:  "ImageUnreachable",
		kind:    spi.ErrPrecondition,
		grace:   retry,
		from:    []origin{volume},
		reasons: failing,
		texts: []string{
			"no such host", "could not resolve host", "connection refused", "connection reset", "no route to host", "network is unreachable",
			"deadline exceeded", "i/o timeout", "handshake timeout", "timeout awaiting", "timeout exceeded", "gateway timeout", "timed out", "timeout was reached",
		},
		remedy: "check that pods on the provider cluster can reach the image's source",
	},
	{
		// CDI, about its importer's own image or a source that the nodes pull
		// (pkg/controller/util.go).
		reason:  "ImagePullFailed",
		kind:    spi.ErrPrecondition,
		grace:   retry,
		from:    []origin{volume},
		reasons: []string{"ImagePullFailed"},
		remedy:  "check that the provider nodes can pull this image",
	},
	{
		reason:  "ImageCorrupt",
		kind:    spi.ErrPrecondition,
		grace:   retry,
		from:    []origin{volume},
		reasons: failing,
		texts:   []string{"checksum mismatch", "checksum validation failed"},
		remedy:  "correct the image or its checksum; a golden image is then imported again automatically, any other DataVolume when it is deleted",
	},
	{
		reason:  DataVolumeFailed,
		kind:    spi.ErrPrecondition,
		grace:   retry,
		from:    []origin{scheduler},
		reasons: scheduled,
		texts:   lost,
		remedy:  "delete the machine, so that its volumes are recreated",
	},
	{
		reason:  DataVolumeFailed,
		kind:    spi.ErrPrecondition,
		grace:   retry,
		from:    []origin{volume},
		reasons: []string{"Failed", "ClaimLost"},
		remedy:  "delete the machine, so that its volumes are recreated; a golden image is recreated automatically",
	},
	{
		// Kubelet, about a variable of the importer (k8s.io/kubernetes/pkg/kubelet/kubelet_pods.go). Volumes
		// are in its events.
		reason:  "SecretNotFound",
		kind:    spi.ErrPrecondition,
		grace:   retry,
		from:    []origin{volume},
		reasons: []string{"CreateContainerConfigError"},
		texts:   []string{`secret "`, `configmap "`, " in secret ", " in configmap "},
		remedy:  "create the object on the provider cluster, or correct the reference to it in the source of the volume",
	},
	{
		reason:  "ImportFailed",
		kind:    spi.ErrPrecondition,
		grace:   retry,
		from:    []origin{volume},
		reasons: []string{startingPod},
		remedy:  "check that the PriorityClass of the volume exists; the log of cdi-deployment on the provider cluster has the reason",
	},
	{
		reason:  "ImportFailed",
		kind:    spi.ErrPrecondition,
		grace:   retry,
		from:    []origin{volume},
		reasons: slices.Concat(failing, notStarting),
		remedy:  "check the DataVolume and CDI's pods on the provider cluster",
	},
}

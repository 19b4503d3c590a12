// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package diagnose_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/diagnose"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// The tests' machine was created at born, a minute and a half ago, with the default grace periods.
var (
	now   = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	born  = now.Add(-90 * time.Second)
	grace = diagnose.GracePeriodsOf(30 * time.Second)
)

func ago(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }

func newVM(status string, conditions ...kubevirtv1.VirtualMachineCondition) *kubevirtv1.VirtualMachine {
	return &kubevirtv1.VirtualMachine{
		ObjectMeta: metav1.ObjectMeta{Name: "m", UID: "vm", CreationTimestamp: metav1.NewTime(born)},
		Status: kubevirtv1.VirtualMachineStatus{
			PrintableStatus: kubevirtv1.VirtualMachinePrintableStatus(status), Conditions: conditions,
		},
	}
}

// failure returns a VirtualMachine whose condition Failure is true since then.
func failure(reason, message string, since metav1.Time) *diagnose.Evidence {
	return &diagnose.Evidence{VirtualMachine: newVM("Stopped", kubevirtv1.VirtualMachineCondition{
		Type: kubevirtv1.VirtualMachineFailure, Status: corev1.ConditionTrue, Reason: reason, Message: message, LastTransitionTime: since,
	})}
}

func newInstance(phase kubevirtv1.VirtualMachineInstancePhase, conditions ...kubevirtv1.VirtualMachineInstanceCondition) *kubevirtv1.VirtualMachineInstance {
	controller := true

	return &kubevirtv1.VirtualMachineInstance{
		ObjectMeta: metav1.ObjectMeta{
			Name: "m", CreationTimestamp: metav1.NewTime(born),
			OwnerReferences: []metav1.OwnerReference{{UID: "vm", Controller: &controller}},
		},
		Status: kubevirtv1.VirtualMachineInstanceStatus{
			Phase: phase, Conditions: conditions, ActivePods: map[types.UID]string{"pod": ""},
		},
	}
}

func condition(kind, reason, message string, since metav1.Time) kubevirtv1.VirtualMachineInstanceCondition {
	return kubevirtv1.VirtualMachineInstanceCondition{
		Type: kubevirtv1.VirtualMachineInstanceConditionType(kind), Status: corev1.ConditionFalse, Reason: reason, Message: message,
		LastTransitionTime: since,
	}
}

// instanceSays returns a machine whose instance has one condition.
func instanceSays(kind, reason, message string, since metav1.Time) *diagnose.Evidence {
	return &diagnose.Evidence{VirtualMachine: newVM("Starting"), Instance: newInstance(kubevirtv1.Scheduling, condition(kind, reason, message, since))}
}

func unschedulable(message string, since metav1.Time) *diagnose.Evidence {
	return instanceSays("PodScheduled", "Unschedulable", message, since)
}

func newVolume(name string, phase cdiv1beta1.DataVolumePhase, conditions ...cdiv1beta1.DataVolumeCondition) cdiv1beta1.DataVolume {
	return cdiv1beta1.DataVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", CreationTimestamp: metav1.NewTime(born)},
		Status:     cdiv1beta1.DataVolumeStatus{Phase: phase, Conditions: conditions},
	}
}

// cloneOf returns a DataVolume as a clone of claim image.
func cloneOf(dv cdiv1beta1.DataVolume) cdiv1beta1.DataVolume {
	dv.Spec.Source = &cdiv1beta1.DataVolumeSource{PVC: &cdiv1beta1.DataVolumeSourcePVC{Name: "image"}}

	return dv
}

func says(kind cdiv1beta1.DataVolumeConditionType, status corev1.ConditionStatus, reason, message string, since metav1.Time) cdiv1beta1.DataVolumeCondition {
	return cdiv1beta1.DataVolumeCondition{Type: kind, Status: status, Reason: reason, Message: message, LastTransitionTime: since, LastHeartbeatTime: since}
}

func volumes(list ...cdiv1beta1.DataVolume) *diagnose.Evidence {
	return &diagnose.Evidence{VirtualMachine: newVM("Provisioning"), DataVolumes: list}
}

// volumeSays returns a machine whose DataVolume has one condition that is false.
func volumeSays(kind cdiv1beta1.DataVolumeConditionType, reason, message string, since metav1.Time) *diagnose.Evidence {
	return volumes(newVolume("disk", cdiv1beta1.ImportInProgress, says(kind, corev1.ConditionFalse, reason, message, since)))
}

func importSays(message string) *diagnose.Evidence {
	return volumeSays(cdiv1beta1.DataVolumeRunning, "Error", message, ago(61*time.Second))
}

func warning(kind, reason, message string, first, last metav1.Time) corev1.Event {
	return corev1.Event{
		Type: corev1.EventTypeWarning, Reason: reason, Message: message, FirstTimestamp: first, LastTimestamp: last, Count: 9,
		InvolvedObject: corev1.ObjectReference{Kind: kind, Name: "disk"},
	}
}

// podSays returns a machine whose launcher pod has had a warning repeatedly since then.
func podSays(reason, message string, since time.Duration) *diagnose.Evidence {
	e := &diagnose.Evidence{VirtualMachine: newVM("Starting"), Instance: newInstance(kubevirtv1.Scheduling)}
	e.Events = []corev1.Event{warning("Pod", reason, message, ago(since), ago(time.Second))}

	return e
}

func claimSays(reason, message string, since time.Duration) *diagnose.Evidence {
	e := volumes(newVolume("disk", cdiv1beta1.Pending))
	e.Events = []corev1.Event{warning("PersistentVolumeClaim", reason, message, ago(since), ago(time.Second))}

	return e
}

func with(e *diagnose.Evidence, change func(*diagnose.Evidence)) *diagnose.Evidence {
	change(e)

	return e
}

const quota = `pods "x" is forbidden: exceeded quota: q, requested: pods=1, used: pods=0, limited: pods=0`

// causeCase is a machine with its cause.
type causeCase struct {
	seen *diagnose.Evidence
	want string
	kind error
}

// TestCauses has a row for each cause, with observed messages of the components.
func TestCauses(t *testing.T) {
	t.Parallel()

	soon, minute := ago(31*time.Second), ago(61*time.Second)

	tests := map[string]causeCase{
		"LauncherQuota":   {instanceSays("Synchronized", "FailedCreate", "failed to create virtual machine pod: "+quota, soon), "QuotaExceeded", spi.ErrExhausted},
		"ClaimQuota":      {failure("FailedCreate", "importer is not running due to an error: "+quota, soon), "QuotaExceeded", spi.ErrExhausted},
		"HiddenQuota":     {volumeSays(cdiv1beta1.DataVolumeRunning, "ErrExceededQuota", "Error starting pod", soon), "QuotaExceeded", spi.ErrExhausted},
		"CloneQuota":      {volumeSays(cdiv1beta1.DataVolumeRunning, "Error", quota, soon), "QuotaExceeded", spi.ErrExhausted},
		"FullStorage":     {claimSays("ProvisioningFailed", "rpc error: code = ResourceExhausted desc = full", 2*time.Minute), "StorageExhausted", spi.ErrExhausted},
		"NoZone":          {unschedulable("0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector.", soon), "Unschedulable", spi.ErrExhausted},
		"Memory":          {unschedulable("0/3 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, 2 Insufficient memory.", soon), "Unschedulable", spi.ErrExhausted},
		"Pods":            {unschedulable("0/3 nodes are available: 3 Too many pods.", soon), "Unschedulable", spi.ErrExhausted},
		"Taints":          {unschedulable("0/1 nodes are available: 1 node(s) had untolerated taint {node.kubernetes.io/unreachable: }.", soon), "Unschedulable", spi.ErrExhausted},
		"ImporterPending": {volumeSays(cdiv1beta1.DataVolumeRunning, "Unschedulable", "Importer pod cannot be scheduled", ago(6*time.Minute)), "Unschedulable", spi.ErrExhausted},
		"Device":          {unschedulable("0/3 nodes are available: 3 Insufficient nvidia.com/X.", soon), "InsufficientDevices", spi.ErrExhausted},
		"KVM":             {unschedulable("0/3 nodes are available: 3 Insufficient devices.kubevirt.io/kvm.", soon), "VirtualizationMissing", spi.ErrExhausted},

		"ZoneConflict": {unschedulable("0/2 nodes are available: 1 node(s) had untolerated taint {node-role.kubernetes.io/control-plane: }, 1 node(s) had volume node affinity conflict.", soon), "VolumeZoneConflict", spi.ErrPrecondition},
		"Clone":        {failure("FailedCreate", "Error encountered while creating DataVolumes: not authorized to create DataVolume: User x has insufficient permissions", soon), "CloneForbidden", spi.ErrForbidden},
		"Instancetype": {failure("FailedFindInstancetype", `virtualmachineclusterinstancetypes.instancetype.kubevirt.io "x" not found`, soon), "InstancetypeNotFound", spi.ErrPrecondition},
		"Preference":   {failure("FailedFindPreference", `"x" not found`, soon), "PreferenceNotFound", spi.ErrPrecondition},
		"DataSource":   {failure("FailedCreate", `unable to create DataVolume manifest: datasources.cdi.kubevirt.io "x" not found`, soon), "DataSourceNotFound", spi.ErrPrecondition},
		"PodSecurity":  {instanceSays("Synchronized", "FailedCreate", `pods "x" is forbidden: violates PodSecurity "restricted:latest"`, soon), "PodSecurityViolated", spi.ErrPrecondition},
		"Priority":     {instanceSays("Synchronized", "FailedCreate", `pods "x" is forbidden: no PriorityClass with name x was found`, soon), "PriorityClassNotFound", spi.ErrPrecondition},
		"Network":      {instanceSays("Synchronized", "FailedCreate", "failed to render launch manifest: failed to locate network attachment definition ns/x", soon), "NetworkNotFound", spi.ErrPrecondition},
		"Multus":       {podSays("FailedCreatePodSandBox", "cannot find a network-attachment-definition (x) in namespace (ns)", time.Minute), "NetworkNotFound", spi.ErrPrecondition},
		"Webhook":      {instanceSays("Synchronized", "FailedCreate", `Internal error occurred: failed calling webhook "x": timeout`, minute), "WebhookUnavailable", spi.ErrUnavailable},
		"Refused":      {failure("FailedCreate", `Failure while starting VMI: admission webhook "virtualmachineinstances-create-validator.kubevirt.io" denied the request: x`, soon), "InstanceInvalid", spi.ErrInvalid},
		"Invalid":      {failure("FailedCreate", `Failure while starting VMI: VirtualMachineInstance.kubevirt.io "x" is invalid: metadata.labels: Invalid value`, soon), "InstanceInvalid", spi.ErrInvalid},
		"Validation":   {instanceSays("Synchronized", "FailedCreateValidation", "failed create validation: x", soon), "InstanceInvalid", spi.ErrInvalid},
		"Policy":       {instanceSays("Synchronized", "FailedCreate", `admission webhook "policy.example.com" denied the request: no`, soon), "PolicyViolated", spi.ErrPrecondition},

		"Claim":          {instanceSays("Synchronized", "FailedPvcNotFound", "PVC ns/x does not exist, waiting for it to appear", minute), "ClaimNotFound", spi.ErrPrecondition},
		"ScheduledClaim": {unschedulable(`0/3 nodes are available: persistentvolumeclaim "x" not found.`, minute), "ClaimNotFound", spi.ErrPrecondition},
		"Source":         {volumeSays(cdiv1beta1.DataVolumeBound, "CloneWithoutSource", "The source pvc x doesn't exist", minute), "CloneSourceNotFound", spi.ErrPrecondition},
		"OtherZone": {claimSays("ProvisioningFailed", `failed to provision volume with StorageClass "zonal": rpc error: code = InvalidArgument desc = `+
			"CreateVolume disk zone b does not match source volume zone a", 2*time.Minute), "CloneZoneConflict", spi.ErrPrecondition},
		"Small":        {volumeSays(cdiv1beta1.DataVolumeReady, "CloneValidationFailed", "storage size is smaller than the source 2 < 5", minute), "VolumeTooSmall", spi.ErrInvalid},
		"FullDisk":     {importSays("DataVolume too small to contain image"), "VolumeTooSmall", spi.ErrInvalid},
		"BadClone":     {volumeSays(cdiv1beta1.DataVolumeReady, "CloneValidationFailed", "Source contentType (archive) and target contentType (kubevirt) do not match", minute), "CloneRefused", spi.ErrPrecondition},
		"StorageClass": {volumeSays(cdiv1beta1.DataVolumeReady, "ErrClaimNotValid", "PVC spec is missing accessMode and no storageClass to choose profile", minute), "StorageClassNotFound", spi.ErrPrecondition},
		"ClaimsClass":  {claimSays("ProvisioningFailed", `storageclass.storage.k8s.io "x" not found`, 2*time.Minute), "StorageClassNotFound", spi.ErrPrecondition},
		"AccessMode":   {volumeSays(cdiv1beta1.DataVolumeReady, "ErrClaimNotValid", "no accessMode specified in StorageProfile x", minute), "ClaimInvalid", spi.ErrInvalid},
		"Provisioner":  {claimSays("ProvisioningFailed", "rpc error: code = Internal desc = x", 6*time.Minute), "ProvisioningFailed", spi.ErrPrecondition},

		"404":          {importSays("Unable to connect to http data source: expected status code 200, got 404. Status: 404 Not Found"), "ImageNotFound", spi.ErrPrecondition},
		"Manifest":     {volumeSays(cdiv1beta1.DataVolumeRunning, "ImagePullFailed", "failed to pull image: reading manifest: manifest unknown", minute), "ImageNotFound", spi.ErrPrecondition},
		"401":          {importSays("expected status code 200, got 401. Status: 401 Unauthorized"), "ImageUnauthorized", spi.ErrPrecondition},
		"CA":           {importSays("tls: failed to verify certificate: x509: certificate signed by unknown authority"), "ImageCertificateUntrusted", spi.ErrPrecondition},
		"Unreachable":  {importSays("dial tcp: lookup x: no such host"), "ImageUnreachable", spi.ErrPrecondition},
		"ImporterPull": {volumeSays(cdiv1beta1.DataVolumeRunning, "ImagePullFailed", "failed to pull image: cdi-importer:v1", minute), "ImagePullFailed", spi.ErrPrecondition},
		"Checksum":     {volumeSays(cdiv1beta1.DataVolumeRunning, "ChecksumError", "checksum mismatch", minute), "ImageCorrupt", spi.ErrPrecondition},
		"GivenUp":      {volumes(newVolume("disk", cdiv1beta1.Failed, says(cdiv1beta1.DataVolumeBound, corev1.ConditionFalse, "ClaimLost", "Claim Lost", minute))), "DataVolumeFailed", spi.ErrPrecondition},
		"Import":       {importSays("Unable to convert source data to target format: qemu-img: x"), "ImportFailed", spi.ErrPrecondition},
		"NoImporter":   {volumeSays(cdiv1beta1.DataVolumeRunning, "ErrStartingPod", "Error starting pod 'importer-x'", minute), "ImportFailed", spi.ErrPrecondition},

		"ImporterSecret": {
			volumeSays(cdiv1beta1.DataVolumeRunning, "CreateContainerConfigError", `secret "registry-creds" not found`, minute), "SecretNotFound", spi.ErrPrecondition,
		},
		"ImporterSecretKey": {
			volumeSays(cdiv1beta1.DataVolumeRunning, "CreateContainerConfigError", "couldn't find key accessKeyId in Secret ns/s3", minute), "SecretNotFound", spi.ErrPrecondition,
		},
		"ImporterContainer": {volumeSays(cdiv1beta1.DataVolumeRunning, "CreateContainerError", "context deadline exceeded", minute), "ImportFailed", spi.ErrPrecondition},
		"ImporterEvicted":   {volumeSays(cdiv1beta1.DataVolumeRunning, "Evicted", "", minute), "ImportFailed", spi.ErrPrecondition},
		"ImporterMemory":    {volumeSays(cdiv1beta1.DataVolumeRunning, "OOMKilled", "", minute), "ImportOutOfMemory", spi.ErrPrecondition},
		"SenderMemory":      {volumeSays(cdiv1beta1.DataVolumeRunning, "Pending and OOMKilled", " and ", minute), "ImportOutOfMemory", spi.ErrPrecondition},
		"KilledBefore":      {killedImport("DataVolume too small to contain image"), "ImportOutOfMemory", spi.ErrPrecondition},
		"ImporterUnknown":   {volumeSays(cdiv1beta1.DataVolumeRunning, "SomethingNew", "x", ago(6*time.Minute)), "ImportFailed", spi.ErrPrecondition},
		"ImporterWaiting":   {volumeSays(cdiv1beta1.DataVolumeRunning, "ContainerCreating", "", ago(11*time.Minute)), "ImportFailed", spi.ErrPrecondition},
		"ImporterVolume":    {podSays("FailedMount", `MountVolume.SetUp failed for volume "v" : secret "headers" not found`, 2*time.Minute), "SecretNotFound", spi.ErrPrecondition},
		"ImporterPriority": {with(volumeSays(cdiv1beta1.DataVolumeRunning, "ErrStartingPod", "Error starting pod 'importer-x'", minute), func(e *diagnose.Evidence) {
			e.DataVolumes[0].Spec.PriorityClassName = "image-import"
		}), "ImportFailed", spi.ErrPrecondition},
		"LeftClaim": {leftClaim(6 * time.Minute), "VolumeNotDeleted", spi.ErrTimeout},
		"Stalled":   {stalled(cloneOf(newVolume("disk", cdiv1beta1.PrepClaimInProgress)), 6*time.Minute), "VolumeStalled", spi.ErrTimeout},

		"LimitRange": {
			instanceSays("Synchronized", "FailedCreate", `Pod "x" is invalid: spec.containers[0].resources.requests: Invalid value: "1Gi": must be less than or equal to memory limit of 512Mi`, soon),
			"LimitRangeViolated", spi.ErrPrecondition,
		},
		"LimitRangeMaximum": {
			instanceSays("Synchronized", "FailedCreate", `pods "x" is forbidden: maximum memory usage per Container is 1Gi, but limit is 2Gi`, soon), "LimitRangeViolated", spi.ErrPrecondition,
		},

		"NotStarted":   {scheduled(6 * time.Minute), "GuestNotStarted", spi.ErrPrecondition},
		"NotSynced":    {scheduled(2*time.Minute, condition("Synchronized", "Synchronizing with the Domain failed.", "server error. LinkAdd: operation not supported", minute)), "GuestNotStarted", spi.ErrPrecondition},
		"SyncFailed":   {with(scheduled(2*time.Minute), syncFailed), "GuestNotStarted", spi.ErrPrecondition},
		"IOError":      {paused("PausedIOError", 2*time.Minute), "GuestPaused", spi.ErrPrecondition},
		"PausedByUser": {paused("PausedByUser", 2*time.Minute), "GuestPaused", spi.ErrPrecondition},
		"PausedLong":   {paused("PausedByAnotherComponent", 6*time.Minute), "GuestPaused", spi.ErrPrecondition},
		"OnceFailed":   {ended(kubevirtv1.RunStrategyOnce, kubevirtv1.Failed), "GuestEnded", spi.ErrPrecondition},
		"OnceCrashed": {with(&diagnose.Evidence{VirtualMachine: crashing(1)}, func(e *diagnose.Evidence) {
			e.VirtualMachine.Spec.RunStrategy = new(kubevirtv1.RunStrategyOnce)
		}), "GuestEnded", spi.ErrPrecondition},
		"GuestCrashing": {with(onNode(kubevirtv1.Running, 2*time.Minute), func(e *diagnose.Evidence) {
			e.Events = append(e.Events, warning("VirtualMachineInstance", "Stopped", "The VirtualMachineInstance crashed.", ago(5*time.Minute), ago(time.Second)))
		}), "GuestCrashing", spi.ErrPrecondition},
		"Halted": {&diagnose.Evidence{VirtualMachine: halted(newVM("Stopped"))}, "MachineStopped", spi.ErrPrecondition},

		"Pull":      {instanceSays("Synchronized", "ErrImagePull", "x", minute), "ImagePullFailed", spi.ErrPrecondition},
		"PullEvent": {podSays("BackOff", `Back-off pulling image "x"`, 2*time.Minute), "ImagePullFailed", spi.ErrPrecondition},
		"Secret":    {podSays("FailedMount", `MountVolume.SetUp failed for volume "v" : secret "x" not found`, 2*time.Minute), "SecretNotFound", spi.ErrPrecondition},
		"DeadNode":  {starting(boundPod(minute)), "NodeDown", spi.ErrUnavailable},
		"DeadGuest": {&diagnose.Evidence{VirtualMachine: newVM("Running"), Instance: withReason(newInstance(kubevirtv1.Failed), "NodeUnresponsive")}, "NodeDown", spi.ErrUnavailable},
		"Crashes":   {&diagnose.Evidence{VirtualMachine: crashing(2)}, "CrashLooping", spi.ErrPrecondition},
		"InUse":     {claimSays("CloneSourceInUse", "pod ns/x using PersistentVolumeClaim y", 6*time.Minute), "CloneSourceInUse", spi.ErrTimeout},
		"ClaimUsed": {unschedulable("0/1 nodes are available: 1 node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod.", ago(6*time.Minute)), "ClaimInUse", spi.ErrPrecondition},
		"Unbound":   {unschedulable("0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims.", ago(6*time.Minute)), "VolumeNotBound", spi.ErrPrecondition},
		"Mount":     {podSays("FailedAttachVolume", "Multi-Attach error", 6*time.Minute), "VolumeMountFailed", spi.ErrPrecondition},
		"Sandbox":   {podSays("FailedCreatePodSandBox", "plugin failed", 6*time.Minute), "NetworkSetupFailed", spi.ErrPrecondition},

		"DrainOfLastNode":  {evacuated(target("Unschedulable", "0/3 nodes are available: 1 node(s) were unschedulable, 2 node(s) didn't match Pod's node affinity/selector. preemption: x")), "MigrationUnschedulable", spi.ErrExhausted},
		"FailedMigrations": {evacuated(nil, migration("m-2", kubevirtv1.MigrationPending), migration("m-1", kubevirtv1.MigrationFailed)), "MigrationFailed", spi.ErrPrecondition},
		"MigrationQuota":   {evacuated(nil, rejectedByQuota(migration("m-1", kubevirtv1.MigrationPending))), "QuotaExceeded", spi.ErrExhausted},

		"Unknown": {failure("FailedCreate", "something new", ago(6*time.Minute)), "CreationFailed", spi.ErrPrecondition},
		"NewestWord": {with(unschedulable("pod has unbound immediate PersistentVolumeClaims.", soon), func(e *diagnose.Evidence) {
			e.Pods = []corev1.Pod{rejectedPod("")}
		}), "Unschedulable", spi.ErrExhausted},
		"RejectedAfterConflict": {with(instanceSays("PodScheduled", "SchedulerError", "the object has been modified", soon), func(e *diagnose.Evidence) {
			e.Pods = []corev1.Pod{rejectedPod("Unschedulable")}
		}), "Unschedulable", spi.ErrExhausted},
	}

	for name, lines := range consoles {
		reason, _, _ := strings.Cut(name, ",")
		tests[name] = causeCase{printing(lines...), reason, spi.ErrPrecondition}
	}

	proven := map[string]bool{}

	for name, tc := range tests {
		proven[tc.want] = true

		t.Run(name, func(t *testing.T) {
			t.Parallel()

			got := tc.seen.Cause(now, grace)
			require.NotNil(t, got)
			require.Equal(t, tc.want, got.Err.Reason, got.Err.Message)
			require.ErrorIs(t, got.Err, tc.kind)
			require.Equal(t, diagnose.Kind(tc.want), tc.kind)
			require.False(t, got.ReportableAt.After(now), "it has stood for long enough: %s", got.ReportableAt)
			require.NotEmpty(t, got.Err.Message, "the component's words")
			require.NotEmpty(t, got.Err.Remedy)
			require.True(t, strings.HasPrefix(got.Err.Error(), tc.want+": "))
			require.True(t, strings.HasSuffix(got.Err.Error(), "; "+got.Err.Remedy))
			require.NotEmpty(t, got.Sign.Object.Kind, "people are shown what it was drawn from")
			require.NotEmpty(t, got.Sign.Type)
			require.NotEmpty(t, got.Sign.Status)
			require.Contains(t, tc.seen.Signs(now), *got.Sign, "it is one of the signs")

			if tc.want == "GuestEnded" {
				return // It is final.
			}
			early := tc.seen.Cause(got.Since.Add(time.Second), grace)
			require.True(t, early == nil || early.ReportableAt.After(got.Since.Add(time.Second)), "a second old, it is a blip")
		})
	}

	for _, reason := range diagnose.Reasons() {
		require.True(t, proven[reason], "%s has no row", reason)
	}
}

func TestNoCause(t *testing.T) {
	t.Parallel()

	old, young := ago(time.Hour), ago(5*time.Second)

	tests := map[string]struct {
		reason string
		seen   *diagnose.Evidence
	}{
		"New":         {"Stopped at birth means nothing", &diagnose.Evidence{VirtualMachine: newVM("Stopped")}},
		"Blip":        {"a failure of a few seconds", failure("FailedCreate", quota, young)},
		"NoTime":      {"not the words of the component that knows", unschedulable("PVC ns/x does not exist", metav1.Time{})},
		"Gated":       {"somebody else decides when the pod may be scheduled", instanceSays("PodScheduled", "SchedulingGated", "", old)},
		"OlderLife":   {"an instance exists: what the VirtualMachine shows is older", with(failure("FailedCreate", quota, old), func(e *diagnose.Evidence) { e.Instance = newInstance("") })},
		"CopiedOnly":  {"what the VirtualMachine copied may be a previous instance's", &diagnose.Evidence{VirtualMachine: newVM("Starting", copied(old))}},
		"OneCrash":    {"an evicted launcher fails once", &diagnose.Evidence{VirtualMachine: crashing(1)}},
		"PVCPending":  {"KubeVirt's word for storage that is being made", instanceSays("Synchronized", "BackendStorageNotReady", "PVC pending", old)},
		"SizeMissing": {"the clone's source is still importing, where it cannot be seen", volumes(cloneOf(newVolume("disk", cdiv1beta1.CloneScheduled, says(cdiv1beta1.DataVolumeRunning, corev1.ConditionFalse, "Error", "source/target size info missing", old))))},
		"ImageImports": {"the image is judged, not its clone", with(volumeSays(cdiv1beta1.DataVolumeRunning, "Error", "whatever", old), func(e *diagnose.Evidence) {
			e.DataVolumes[0] = cloneOf(e.DataVolumes[0])
			e.Images = []cdiv1beta1.DataVolume{newVolume("image", cdiv1beta1.ImportInProgress, says(cdiv1beta1.DataVolumeRunning, corev1.ConditionTrue, "Pod is running", "", old))}
		})},
		"SlowImport": {"an import takes as long as it takes", volumes(newVolume("disk", cdiv1beta1.ImportInProgress,
			says(cdiv1beta1.DataVolumeBound, corev1.ConditionFalse, "Pending", "target PVC disk Pending", old),
			says(cdiv1beta1.DataVolumeReady, corev1.ConditionFalse, "TransferRunning", "", old),
			says(cdiv1beta1.DataVolumeRunning, corev1.ConditionTrue, "Pod is running", "", old)))},
		"Clone Pending": {"CDI has not begun", volumeSays(cdiv1beta1.DataVolumeRunning, "Pending", "Clone Pending", old)},
		"Scratch space": {"CDI starts the importer again", volumeSays(cdiv1beta1.DataVolumeRunning, "Scratch space required", "", old)},
		"Crash loop":    {"CDI has missed how the importer ended, and sees the next end", volumeSays(cdiv1beta1.DataVolumeRunning, "Pod is running", "", old)},
		"Image pull":    {"kubelet pulls the importer's image", volumeSays(cdiv1beta1.DataVolumeRunning, "ContainerCreating", "", ago(9*time.Minute))},
		"Scheduled":     {"virt-handler prepares the guest", scheduled(2 * time.Minute)},
		"Stall":         {"only operators ask for it: a clone takes as long as it takes", with(stalled(newVolume("disk", cdiv1beta1.CSICloneInProgress), time.Hour), func(e *diagnose.Evidence) { e.WithStalls = false })},
		"Terminating":   {"claims are deleted within seconds", leftClaim(time.Minute)},
		"Restarts":      {"KubeVirt starts it again", ended(kubevirtv1.RunStrategyAlways, kubevirtv1.Succeeded)},
		"ImporterWaits": {"an importer's volume is being made", volumeSays(cdiv1beta1.DataVolumeRunning, "Unschedulable", "Importer pod cannot be scheduled", ago(2*time.Minute))},
		"Done":          {"it has failed, and then succeeded", volumes(newVolume("disk", cdiv1beta1.Succeeded, says(cdiv1beta1.DataVolumeRunning, corev1.ConditionFalse, "Error", "x", old)))},
		"Completed":     {"an importer that has ended well", volumeSays(cdiv1beta1.DataVolumeRunning, "Completed", "Import Complete", old)},
		"OldEvent":      {"an event stays when what it tells of is over", with(podSays("FailedMount", `secret "x" not found`, time.Hour), func(e *diagnose.Evidence) { e.Events[0].LastTimestamp = ago(50 * time.Minute) })},
		"SingleWord":    {"an event that did not come back", with(podSays("FailedMount", `secret "x" not found`, time.Hour), func(e *diagnose.Evidence) { e.Events[0].Count = 1 })},
		"BlipOfOld": {"what was over after seconds does not ripen by itself", with(podSays("FailedMount", `secret "x" not found`, 2*time.Minute), func(e *diagnose.Evidence) {
			e.Events[0].LastTimestamp = ago(118 * time.Second)
		})},
		"NormalEvent": {"no warning", with(podSays("FailedMount", `secret "x" not found`, time.Hour), func(e *diagnose.Evidence) { e.Events[0].Type = corev1.EventTypeNormal })},
		"Strangers": {"another VirtualMachine's instance of the same name", with(unschedulable("0/3 nodes are available", old), func(e *diagnose.Evidence) {
			e.VirtualMachine.UID = "another"
		})},
		"Leaving": {"the instance is being replaced", with(unschedulable("0/3 nodes are available", old), func(e *diagnose.Evidence) { e.Instance.DeletionTimestamp = &young })},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			got := tc.seen.Cause(now, grace)
			require.True(t, got == nil || got.ReportableAt.After(now), "%s: %v", tc.reason, got)
		})
	}
}

// TestCause_Precedence verifies which one of several causes is returned.
func TestCause_Precedence(t *testing.T) {
	t.Parallel()

	e := unschedulable("0/3 nodes are available: 3 Insufficient cpu.", ago(time.Hour))
	e.Instance.Status.Conditions = append(e.Instance.Status.Conditions, condition("Synchronized", "FailedCreate", quota, ago(time.Minute)))
	require.Equal(t, "QuotaExceeded", e.Cause(now, grace).Err.Reason, "quota before room")

	e.Instance.Status.Conditions[1].LastTransitionTime = ago(time.Second)
	require.Equal(t, "Unschedulable", e.Cause(now, grace).Err.Reason, "what is ripe before what is not")

	e.Instance.Status.Conditions[0].LastTransitionTime = ago(2 * time.Second)
	cause := e.Cause(now, grace)
	require.Equal(t, "Unschedulable", cause.Err.Reason, "what is ripe first")
	require.Equal(t, now.Add(28*time.Second), cause.ReportableAt)

	e = volumes(newVolume("disk", cdiv1beta1.ImportInProgress, says(cdiv1beta1.DataVolumeRunning, corev1.ConditionFalse, "Error", "got 404", ago(2*time.Second))))
	require.True(t, e.Cause(now, grace).ReportableAt.After(now), "an importer crashes once in a while")

	e.DataVolumes[0].Status.RestartCount = 3
	require.False(t, e.Cause(now, grace).ReportableAt.After(now), "one that crashes again and again has not succeeded since the beginning")
}

func TestMachine_NoGracePeriod(t *testing.T) {
	t.Parallel()

	require.Nil(t, diagnose.Machine(newVM("Stopped"), nil))

	e := unschedulable("0/3 nodes are available", ago(0))
	require.NotNil(t, diagnose.Machine(e.VirtualMachine, e.Instance))
}

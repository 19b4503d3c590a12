// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package diagnose_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/diagnose"
)

// stalled returns a machine whose DataVolume was last written by CDI that long ago.
func stalled(dv cdiv1beta1.DataVolume, since time.Duration) *diagnose.Evidence {
	dv.CreationTimestamp = ago(2 * time.Hour)
	dv.ManagedFields = []metav1.ManagedFieldsEntry{
		{Manager: "virt-controller", Time: new(ago(2 * time.Hour))}, {Manager: "cdi-controller", Subresource: "status", Time: new(ago(since))},
	}

	e := volumes(dv)
	e.WithStalls = true

	return e
}

// killedImport returns a machine whose importer was killed for its memory limit once, and now fails with
// this message.
func killedImport(message string) *diagnose.Evidence {
	e := importSays(message)
	e.Claims = []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "disk", Namespace: "ns", UID: "uid"}}, {ObjectMeta: metav1.ObjectMeta{
		Name:        "prime-uid",
		Namespace:   "ns",
		Annotations: map[string]string{"cdi.kubevirt.io/storage.import.requiresDirectIo": "false"},
	}}}
	failed := warning("PersistentVolumeClaim", "ErrImportFailed", message, ago(61*time.Second), ago(time.Second))
	failed.InvolvedObject.Name = "prime-uid"
	e.Events = []corev1.Event{failed}

	return e
}

// leftClaim returns a machine whose claim was deleted that long ago.
func leftClaim(since time.Duration) *diagnose.Evidence {
	e := volumes()
	e.Claims = []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{
		Name:              "disk",
		Namespace:         "ns",
		DeletionTimestamp: new(ago(since)),
		Finalizers:        []string{"snapshot.storage.kubernetes.io/pvc-as-source-protection"},
	}}}

	return e
}

// TestCause_KilledImport tests failures of an import that follow the end of an importer for its memory limit.
func TestCause_KilledImport(t *testing.T) {
	t.Parallel()

	cause := killedImport("DataVolume too small to contain image").Cause(now, grace)
	require.Contains(t, cause.Err.Message, "DataVolume disk: an importer was killed: out of memory")
	require.Contains(t, cause.Err.Message, "DataVolume too small to contain image")
	require.Contains(t, cause.Err.Remedy, "podResourceRequirements")

	e := killedImport("DataVolume too small to contain image")
	e.Claims[1].Annotations = nil
	require.Equal(t, "VolumeTooSmall", e.Cause(now, grace).Err.Reason, "no importer was killed")

	e = killedImport("")
	e.Events = nil
	e.DataVolumes[0].Status.Conditions = nil
	require.Nil(t, e.Cause(now, grace), "the next importer did not fail")
}

// TestCause_RepeatedImport tests failures of an import that CDI has repeated, and that progresses now.
func TestCause_RepeatedImport(t *testing.T) {
	t.Parallel()

	const tooSmall = "Virtual image size 10737418240 is larger than the reported available storage 2040109465."

	runs := func(e *diagnose.Evidence) *diagnose.Evidence {
		e.DataVolumes[0].Status.Conditions = []cdiv1beta1.DataVolumeCondition{says(cdiv1beta1.DataVolumeRunning, corev1.ConditionTrue, "Pod is running", "", ago(0))}

		return e
	}

	for name, e := range map[string]*diagnose.Evidence{
		"Killed":      runs(killedImport("")),
		"TooSmall":    runs(killedImport(tooSmall)),
		"NeverKilled": with(runs(killedImport(tooSmall)), func(e *diagnose.Evidence) { e.Claims[1].Annotations = nil }),
		"Image": with(runs(killedImport(tooSmall)), func(e *diagnose.Evidence) {
			e.Images = e.DataVolumes
			e.DataVolumes = nil
		}),
		"Directly": with(runs(killedImport("")), func(e *diagnose.Evidence) {
			e.Claims[0].Annotations = e.Claims[1].Annotations
			e.Claims = e.Claims[:1]
			e.Events[0].InvolvedObject.Name = "disk"
		}),
	} {
		require.Nil(t, e.Cause(now, grace), name)
		require.NotEmpty(t, e.Signs(now), "%s: the event is still evidence", name)
	}

	require.Equal(t, "ImportOutOfMemory", killedImport("").Cause(now, grace).Err.Reason, "it does not run")
}

// TestCause_FailedVolume tests the message of a volume that CDI has given up.
func TestCause_FailedVolume(t *testing.T) {
	t.Parallel()

	silent := says(cdiv1beta1.DataVolumeBound, corev1.ConditionFalse, "Pending", "", ago(time.Minute))
	require.Contains(t, volumes(newVolume("disk", cdiv1beta1.Failed, silent)).Cause(now, grace).Err.Message, "has failed")

	starting := says(cdiv1beta1.DataVolumeRunning, corev1.ConditionFalse, "ErrStartingPod", "cannot start", ago(time.Hour))
	e := volumes(newVolume("disk", cdiv1beta1.ImportScheduled, starting))
	require.NotContains(t, e.Cause(now, grace).Err.Message, "PriorityClass")

	e.DataVolumes[0].Spec.PriorityClassName = "import"
	require.Contains(t, e.Cause(now, grace).Err.Message, `PriorityClass "import"`)
}

// TestCause_KilledOnce tests later failures of an import whose importer was once killed for its memory limit:
// CDI's annotation stays.
func TestCause_KilledOnce(t *testing.T) {
	t.Parallel()

	for message, want := range map[string]string{
		"expected status code 200, got 404. Status: 404 Not Found": "ImageNotFound",
		"dial tcp: lookup x: no such host":                         "ImageUnreachable",
		"qemu-img: no space left on device":                        "ImportOutOfMemory",
	} {
		require.Equal(t, want, killedImport(message).Cause(now, grace).Err.Reason, message)
	}
}

// TestCause_LeftClaimWithoutFinalizers tests a claim that no finalizer holds.
func TestCause_LeftClaimWithoutFinalizers(t *testing.T) {
	t.Parallel()

	e := leftClaim(time.Hour)
	e.Claims[0].Finalizers = nil
	require.Equal(t, "PersistentVolumeClaim disk: is still being deleted, with no finalizers", e.Cause(now, grace).Err.Message)
}

// TestCause_VolumeStalled tests volumes on which CDI has written nothing for a while, and others.
func TestCause_VolumeStalled(t *testing.T) {
	t.Parallel()

	clone := newVolume("disk", cdiv1beta1.CSICloneInProgress)
	clone.Spec.Source = &cdiv1beta1.DataVolumeSource{PVC: &cdiv1beta1.DataVolumeSourcePVC{Namespace: "images", Name: "base"}}

	e := stalled(clone, 6*time.Minute)
	e.Claims = []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "disk", Namespace: "ns", UID: "uid"}}}

	cause := e.Cause(now, grace)
	require.Contains(t, cause.Err.Message, "DataVolume disk: is CSICloneInProgress")
	require.Contains(t, cause.Err.Message, "2026-01-02T02:58:05Z", "a time that stays the same")
	require.Contains(t, cause.Err.Remedy, "kubectl --namespace=images get persistentvolumeclaims,pods --selector=cdi.kubevirt.io/OwnedByUID=uid")

	e.Claims = nil
	require.Contains(t, e.Cause(now, grace).Err.Remedy, "kubectl --namespace=ns describe datavolume disk", "the claim cannot be read")

	require.Contains(t, stalled(newVolume("disk", cdiv1beta1.ImportInProgress), 6*time.Minute).Cause(now, grace).Err.Remedy, "kubectl --namespace=ns describe datavolume disk")

	progress := func(e *diagnose.Evidence, percent string) *diagnose.Evidence {
		e.DataVolumes[0].ManagedFields = nil
		e.DataVolumes[0].Status.Progress = cdiv1beta1.DataVolumeProgress(percent)

		return e
	}

	none := map[string]*diagnose.Evidence{
		"it was just written":                                     stalled(clone, 4*time.Minute),
		"it waits for the machine's pod":                          stalled(newVolume("disk", cdiv1beta1.WaitForFirstConsumer), time.Hour),
		"it is complete":                                          stalled(newVolume("disk", cdiv1beta1.Succeeded), time.Hour),
		"its source is still importing":                           stalled(newVolume("disk", cdiv1beta1.CloneScheduled, says(cdiv1beta1.DataVolumeRunning, corev1.ConditionFalse, "Error", "source/target size info missing", ago(time.Hour))), time.Hour),
		"without managed fields, the time of progress is unknown": progress(stalled(clone, time.Hour), "37.50%"),
	}
	for reason, e := range none {
		cause := e.Cause(now, grace)
		require.True(t, cause == nil || cause.ReportableAt.After(now), "%s: %v", reason, cause)
	}

	require.NotNil(t, progress(stalled(clone, time.Hour), "0.00%").Cause(now, grace), "nothing was copied")
}

// TestCause_NormalSilence tests steps that have just begun.
func TestCause_NormalSilence(t *testing.T) {
	t.Parallel()

	for name, silent := range map[string]func(time.Duration) *diagnose.Evidence{
		"Guest": func(d time.Duration) *diagnose.Evidence { return scheduled(d) },
		"Volume": func(d time.Duration) *diagnose.Evidence {
			return stalled(newVolume("disk", cdiv1beta1.ImportInProgress), d)
		},
	} {
		require.Nil(t, silent(29*time.Second).Cause(now, grace), name)
		require.NotNil(t, silent(30*time.Second).Cause(now, grace), name)
	}
}

// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package healthcheck

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/goldenimage"
	providerspec "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/providercluster"
)

// disk returns a DataVolume of a machine.
func disk(name string, phase cdiv1beta1.DataVolumePhase, conditions ...cdiv1beta1.DataVolumeCondition) cdiv1beta1.DataVolume {
	return cdiv1beta1.DataVolume{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace,
			Name:      name,
			Labels:    map[string]string{providerspec.TagCluster: technicalID, providerspec.TagRole: "node"},
		},
		Status: cdiv1beta1.DataVolumeStatus{Phase: phase, Conditions: conditions},
	}
}

// image returns a golden image.
func image(phase cdiv1beta1.DataVolumePhase, conditions ...cdiv1beta1.DataVolumeCondition) cdiv1beta1.DataVolume {
	name := goldenimage.NameOf("key")
	dv := disk(name, phase, conditions...)
	dv.Labels = map[string]string{providerspec.TagCluster: technicalID, providerspec.LabelGoldenImage: name}
	dv.Annotations = map[string]string{providerspec.AnnotationGoldenImageKey: "key"}

	return dv
}

// clonedFrom returns a DataVolume as a clone of another.
func clonedFrom(source string, dv cdiv1beta1.DataVolume) cdiv1beta1.DataVolume {
	dv.Spec.Source = &cdiv1beta1.DataVolumeSource{PVC: &cdiv1beta1.DataVolumeSourcePVC{Namespace: namespace, Name: source}}

	return dv
}

// notRunning is CDI's condition of an importer or a clone that does not run.
func notRunning(reason, message string) cdiv1beta1.DataVolumeCondition {
	return cdiv1beta1.DataVolumeCondition{Type: cdiv1beta1.DataVolumeRunning, Status: corev1.ConditionFalse, Reason: reason, Message: message}
}

func TestFailingVolumes(t *testing.T) {
	t.Parallel()

	failed := notRunning("Error", "got 404")
	restarted := disk("d", cdiv1beta1.ImportInProgress, cdiv1beta1.DataVolumeCondition{Type: cdiv1beta1.DataVolumeRunning, Status: corev1.ConditionTrue})
	restarted.Status.RestartCount = maxRestarts

	deleted := disk("d", cdiv1beta1.ImportInProgress, failed)
	deleted.DeletionTimestamp = ptr.To(metav1.Now())

	ofCSI := disk("d", cdiv1beta1.ImportInProgress, failed)
	delete(ofCSI.Labels, providerspec.TagRole)

	imageName := goldenimage.NameOf("key")

	for name, tc := range map[string]struct {
		reason  string
		volumes []cdiv1beta1.DataVolume
		want    []string
	}{
		"None":         {reason: "no machine and no image"},
		"Complete":     {reason: "it failed, and then succeeded", volumes: []cdiv1beta1.DataVolume{disk("d", cdiv1beta1.Succeeded, failed)}},
		"Waiting":      {reason: "the importer starts", volumes: []cdiv1beta1.DataVolume{disk("d", cdiv1beta1.ImportScheduled, notRunning("ContainerCreating", "x"))}},
		"Completed":    {reason: "the importer ended", volumes: []cdiv1beta1.DataVolume{disk("d", cdiv1beta1.ImportInProgress, notRunning("Completed", "Import Complete"))}},
		"NoConsumer":   {reason: "its machine is not scheduled yet", volumes: []cdiv1beta1.DataVolume{disk("d", cdiv1beta1.WaitForFirstConsumer)}},
		"SourceAbsent": {reason: "normal while the source is created", volumes: []cdiv1beta1.DataVolume{disk("d", cdiv1beta1.CloneScheduled, notRunning("Error", sourceMissing))}},
		"Deleted":      {reason: "nobody needs it", volumes: []cdiv1beta1.DataVolume{deleted}},
		"CSI":          {reason: "a volume of a pod is not a machine's", volumes: []cdiv1beta1.DataVolume{ofCSI}},
		"Import": {
			reason:  "CDI's importer failed",
			volumes: []cdiv1beta1.DataVolume{image(cdiv1beta1.ImportInProgress, failed)},
			want:    []string{"ImportFailed: " + imageName + ": got 404"},
		},
		"Memory": {
			reason:  "the importer was killed for its memory limit",
			volumes: []cdiv1beta1.DataVolume{disk("d", cdiv1beta1.ImportInProgress, notRunning("OOMKilled", ""))},
			want:    []string{"ImportOutOfMemory: d: OOMKilled"},
		},
		"ConfigError": {
			reason:  "kubelet does not find the Secret of the importer",
			volumes: []cdiv1beta1.DataVolume{disk("d", cdiv1beta1.ImportScheduled, notRunning("CreateContainerConfigError", `secret "s" not found`))},
			want:    []string{`SecretNotFound: d: secret "s" not found`},
		},
		"Sender": {
			reason:  "the sender of a clone fails",
			volumes: []cdiv1beta1.DataVolume{disk("d", cdiv1beta1.CloneInProgress, notRunning("Pending and StartError", "x"))},
			want:    []string{"ImportFailed: d: x"},
		},
		"Pull": {
			reason:  "the nodes cannot pull",
			volumes: []cdiv1beta1.DataVolume{disk("d", cdiv1beta1.ImportScheduled, notRunning("ImagePullFailed", "x"))},
			want:    []string{"ImagePullFailed: d: x"},
		},
		"Quota": {
			reason:  "another condition than Running, without a message",
			volumes: []cdiv1beta1.DataVolume{disk("d", cdiv1beta1.Pending, cdiv1beta1.DataVolumeCondition{Type: cdiv1beta1.DataVolumeBound, Status: corev1.ConditionFalse, Reason: "ErrExceededQuota"})},
			want:    []string{"QuotaExceeded: d: ErrExceededQuota"},
		},
		"GivenUp": {
			reason:  "the phase alone",
			volumes: []cdiv1beta1.DataVolume{disk("d", cdiv1beta1.Failed)},
			want:    []string{"DataVolumeFailed: d: CDI does not retry the import or clone"},
		},
		"CrashLoop": {
			reason:  "it runs for a moment again",
			volumes: []cdiv1beta1.DataVolume{restarted},
			want:    []string{"ImportFailed: d: its importer restarted 3 times"},
		},
		"CloneOfFailure": {
			reason: "only the image can be repaired",
			volumes: []cdiv1beta1.DataVolume{
				clonedFrom(imageName, disk("d", cdiv1beta1.CloneScheduled, notRunning("CloneValidationFailed", "x"))), image(cdiv1beta1.ImportInProgress, failed),
			},
			want: []string{"ImportFailed: " + imageName + ": got 404"},
		},
		"Clone": {
			reason: "the image is complete",
			volumes: []cdiv1beta1.DataVolume{
				clonedFrom(imageName, disk("d", cdiv1beta1.CloneScheduled, notRunning("CloneValidationFailed", "too small"))), image(cdiv1beta1.Succeeded),
			},
			want: []string{"CloneRefused: d: too small"},
		},
		"Credentials": {
			reason:  "URLs may contain credentials",
			volumes: []cdiv1beta1.DataVolume{disk("d", cdiv1beta1.ImportScheduled, notRunning("Error", `Get "https://me:`+token+`@images.example.com/a.img": EOF`))},
			want:    []string{"ImportFailed: d: Get <URL>: EOF"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			var found volumes

			for i := range tc.volumes {
				if dv := &tc.volumes[i]; isIncomplete(dv, technicalID) {
					found = append(found, newVolume(dv))
				}
			}

			require.Equal(t, tc.want, found.failing(), tc.reason)
		})
	}
}

func TestDataVolumes(t *testing.T) {
	t.Parallel()

	var many []cdiv1beta1.DataVolume
	for i := range 5 {
		many = append(many, disk(fmt.Sprintf("disk-%d", i), cdiv1beta1.ImportInProgress, notRunning("Error", "got 404")))
	}

	provider := healthyProvider()
	provider[volumesPath] = &cdiv1beta1.DataVolumeList{Items: many}
	check := &machinesCheck{seed: newSeed(t, provider.start(t)), newProviderCluster: (&providercluster.Clients{}).New}

	result, err := check.Check(t.Context(), request)
	require.NoError(t, err)
	require.Equal(t, gardencorev1beta1.ConditionProgressing, result.Status)
	require.Equal(t, transient, *result.ProgressingThreshold)
	require.Equal(t, []gardencorev1beta1.ErrorCode{gardencorev1beta1.ErrorRetryableConfigurationProblem}, result.Codes)
	require.Contains(t, result.Detail, "DataVolumes in namespace my-shoot of the provider cluster fail: ImportFailed: disk-0: got 404; ImportFailed: disk-1: ")
	require.Contains(t, result.Detail, "; and 2 more; CloudProfile: correct the image")
	require.NotContains(t, result.Detail, "disk-3")
}

// TestMachinesCheck_ForeignDataVolume does not report the disks of another landscape, whose Shoot has the same
// technical ID.
func TestMachinesCheck_ForeignDataVolume(t *testing.T) {
	t.Parallel()

	for uid, reported := range map[string]bool{shootUID: true, "": true, "another": false} {
		failing := disk("d", cdiv1beta1.ImportInProgress, notRunning("Error", "got 404"))
		failing.Labels[providerspec.TagShootUID] = uid

		provider := healthyProvider()
		provider[volumesPath] = &cdiv1beta1.DataVolumeList{Items: []cdiv1beta1.DataVolume{failing}}

		result, err := (&machinesCheck{seed: newSeed(t, provider.start(t)), newProviderCluster: (&providercluster.Clients{}).New}).Check(t.Context(), request)
		require.NoError(t, err)
		require.Equalf(t, reported, result.Status != gardencorev1beta1.ConditionTrue, "DataVolume with the UID %q", uid)
	}
}

// TestMachines_Vanished reports virtual machines that were deleted by hand, before machine-controller-manager notices it.
func TestMachines_Vanished(t *testing.T) {
	t.Parallel()

	machine := func(name, providerID string) *machinev1alpha1.Machine {
		return &machinev1alpha1.Machine{
			ObjectMeta: metav1.ObjectMeta{Namespace: request.Namespace, Name: name},
			Spec:       machinev1alpha1.MachineSpec{ProviderID: providerID},
		}
	}

	deleted := machine("m", "kubevirt://m")
	deleted.DeletionTimestamp = ptr.To(metav1.Now())
	deleted.Finalizers = []string{"machine.sapcloud.io/machine-controller"}

	none := &metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadataList"}}
	vms := none.DeepCopy()
	vms.Items = []metav1.PartialObjectMetadata{{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "m"}}}
	foreign := vms.DeepCopy()
	foreign.Items[0].Name = "n"
	foreign.Items[0].Labels = map[string]string{providerspec.TagShootUID: "another"}

	for name, tc := range map[string]struct {
		reason   string
		machine  *machinev1alpha1.Machine
		response any
		vanished bool
	}{
		"Exists":    {reason: "it runs", machine: machine("m", "kubevirt://m"), response: vms},
		"Creating":  {reason: "the driver has not created it yet", machine: machine("m", ""), response: none},
		"Deleting":  {reason: "machine-controller-manager deletes it", machine: deleted, response: none},
		"Forbidden": {reason: "another check reports it", machine: machine("m", "kubevirt://m"), response: forbidden("virtualmachines.kubevirt.io")},
		"Vanished":  {reason: "the virtual machine of another Machine exists", machine: machine("n", "kubevirt://n"), response: vms, vanished: true},
		"Foreign":   {reason: "a Shoot of another landscape has the virtual machine", machine: machine("n", "kubevirt://n"), response: foreign, vanished: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			provider := healthyProvider()
			provider[machinesPath] = tc.response

			result, err := (&machinesCheck{seed: newSeed(t, provider.start(t), tc.machine), newProviderCluster: (&providercluster.Clients{}).New}).Check(t.Context(), request)
			require.NoError(t, err)

			if !tc.vanished {
				require.Equal(t, healthy(), result, tc.reason)

				return
			}

			require.Equal(t, gardencorev1beta1.ConditionFalse, result.Status, tc.reason)
			require.Equal(t, []gardencorev1beta1.ErrorCode{gardencorev1beta1.ErrorRetryableInfraDependencies}, result.Codes)
			require.Contains(t, result.Detail, "MachineVanished: namespace my-shoot of the provider cluster does not have the virtual machines of these Machines, which were deleted externally: n; ")
			require.Contains(t, result.Detail, "delete the Machine to replace it now")
		})
	}
}

// TestMachinesCheck_UnreadableProviderCluster requires an unreadable provider cluster not to be
// reported as a problem of nodes: they may be Ready.
func TestMachinesCheck_UnreadableProviderCluster(t *testing.T) {
	t.Parallel()

	unauthorized := server{volumesPath: status(http.StatusUnauthorized, metav1.StatusReasonUnauthorized, "Unauthorized")}

	for name, kubeconfig := range map[string]string{"NoKubeconfig": "", "Unauthorized": unauthorized.start(t)} {
		result, err := (&machinesCheck{seed: newSeed(t, kubeconfig), newProviderCluster: (&providercluster.Clients{}).New}).Check(t.Context(), request)
		require.NoError(t, err, name)
		require.Equal(t, healthy(), result, name)
	}
}

func TestExcerpt(t *testing.T) {
	t.Parallel()

	for text, want := range map[string]string{
		"no URL":                                                 "no URL",
		"docker://me:secret@example.com/a: EOF":                  "<URL> EOF",
		`Get "https://example.com/a?k=a b": EOF`:                 "Get <URL>: EOF",
		`nested \"https://example.com/a?k=\\\"secret\\\"\": EOF`: "nested \\<URL>",
		`unclosed "https://example.com/a?k=a b`:                  "unclosed <URL>",
	} {
		require.Equal(t, want, excerpt(text))
	}

	long := excerpt(strings.Repeat("ä", maxExcerpt))
	require.LessOrEqual(t, len(long), maxExcerpt+len("..."))
	require.True(t, strings.HasSuffix(long, "ä..."), "it ends with a whole character")
}

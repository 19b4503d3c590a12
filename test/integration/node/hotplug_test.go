// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

//go:build node

package node

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
)

// volumeName is the name of the volume that the test attaches, as csi-provisioner chooses it.
const volumeName = "pvc-data"

// sectorSize is that of the disks.
const sectorSize = 512

// signVolumes are the commands of a guest that writes its name on an empty volume, and then its count behind it every second. It prints what it
// reads from each volume on its console.
const signVolumes = `
  for disk in /sys/block/sd*; do
    [ -e "$disk" ] || continue
    device=/dev/${disk##*/}
    text=$(dd if="$device" bs=512 count=1 iflag=direct status=none | tr -d '\0')
    [ -n "$text" ] || echo "signed by $(hostname)" | dd of="$device" bs=512 conv=sync,fsync oflag=direct status=none
    [ "$text" != "signed by $(hostname)" ] || echo $n | dd of="$device" bs=512 seek=1 conv=sync,fsync oflag=direct status=none
    echo "volume $(tail -c +5 "$disk/device/vpd_pg80"): $text"
  done
`

// TestHotPlug attaches a volume to a machine as KubeVirt's CSI driver does. Its guest writes to it every second, also after a live migration; the
// guest of a second machine reads that. The volume outlives that machine, to which it is still attached.
func TestHotPlug(t *testing.T) {
	first := newMachine(t, looping(signVolumes), linuxSpec)
	first.recordStates(t)
	first.awaitRunning(t)

	serial := first.createVolume(t)
	first.attach(t, serial)

	signature := "volume " + serial + ": signed by " + first.machine.Name
	first.awaitConsole(t, signature)

	boot := first.guestBoot(t)
	source := first.instance(t).Status.NodeName
	first.awaitWrites(t, 1)

	written := first.writesOnVolume(t)
	require.NotEqual(t, source, first.migrate(t))
	first.awaitConsole(t, signature)
	first.awaitWrites(t, written+1)
	require.Equal(t, boot, first.guestBoot(t), "the guest has not booted again")
	first.requireAttachmentPods(t, 1)

	first.detach(t)

	second := first.sibling(t)
	second.awaitRunning(t)
	second.attach(t, serial)
	second.awaitConsole(t, signature)

	first.Scale(t, pool, 0)
	first.AwaitRunning(t, 0)
	first.RequireNothingLeft(t, "DataVolume "+volumeName, "PersistentVolumeClaim "+volumeName)
	require.Contains(t, first.contentOfVolume(t, 0), "signed by "+first.machine.Name, "the volume has outlived both machines")

	require.NoError(t, first.CDI.CdiV1beta1().DataVolumes(first.ProviderNamespace).Delete(t.Context(), volumeName, metav1.DeleteOptions{}))
	first.RequireNothingLeft(t)
}

// createVolume creates an empty volume, and returns the serial number of its disks.
func (w *worker) createVolume(t *testing.T) string {
	t.Helper()

	created, err := w.CDI.CdiV1beta1().DataVolumes(w.ProviderNamespace).Create(t.Context(), &cdiv1beta1.DataVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name:        volumeName,
			Annotations: map[string]string{"cdi.kubevirt.io/storage.deleteAfterCompletion": "false"},
		},
		Spec: cdiv1beta1.DataVolumeSpec{
			Source: &cdiv1beta1.DataVolumeSource{Blank: &cdiv1beta1.DataVolumeBlankImage{}},
			Storage: &cdiv1beta1.StorageSpec{Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("16Mi")},
			}},
		},
	}, metav1.CreateOptions{})
	require.NoError(t, err)

	return string(created.UID)
}

// attach adds the volume to the VirtualMachine, and waits until the guest has it.
func (w *worker) attach(t *testing.T, serial string) {
	t.Helper()

	w.changeVolumes(t, "addvolume", kubevirtv1.AddVolumeOptions{
		Name: volumeName,
		Disk: &kubevirtv1.Disk{
			Serial:     serial,
			DiskDevice: kubevirtv1.DiskDevice{Disk: &kubevirtv1.DiskTarget{Bus: kubevirtv1.DiskBusSCSI}},
		},
		VolumeSource: &kubevirtv1.HotplugVolumeSource{DataVolume: &kubevirtv1.DataVolumeSource{Name: volumeName}},
	})
	w.awaitInstance(t, "the volume is attached to "+w.machine.Name, func(found *kubevirtv1.VirtualMachineInstance) bool {
		at := slices.IndexFunc(found.Status.VolumeStatus, func(s kubevirtv1.VolumeStatus) bool { return s.Name == volumeName })

		return at >= 0 && found.Status.VolumeStatus[at].Phase == kubevirtv1.VolumeReady
	})
	t.Logf("%+v", w.instance(t).Status.VolumeStatus)
	w.requireAttachmentPods(t, 1)
}

// detach removes the volume from the VirtualMachine, and waits until it is no longer in use.
func (w *worker) detach(t *testing.T) {
	t.Helper()

	w.changeVolumes(t, "removevolume", kubevirtv1.RemoveVolumeOptions{Name: volumeName})
	w.awaitInstance(t, "the volume is detached from "+w.machine.Name, func(found *kubevirtv1.VirtualMachineInstance) bool {
		return !slices.ContainsFunc(found.Status.VolumeStatus, func(s kubevirtv1.VolumeStatus) bool { return s.Name == volumeName })
	})
	w.requireAttachmentPods(t, 0)
}

// changeVolumes calls a subresource of the VirtualMachine.
func (w *worker) changeVolumes(t *testing.T, subresource string, options any) {
	t.Helper()

	body, err := json.Marshal(options)
	require.NoError(t, err)
	require.NoError(t, w.Kube.CoreV1().RESTClient().Put().
		AbsPath("apis/subresources.kubevirt.io/v1/namespaces", w.ProviderNamespace, "virtualmachines", w.machine.Name, subresource).
		Body(body).Do(t.Context()).Error())
}

// requireAttachmentPods waits until a number of pods holds the machine's hot-plugged volumes, on its own node.
func (w *worker) requireAttachmentPods(t *testing.T, number int) {
	t.Helper()

	node := w.instance(t).Status.NodeName

	harness.Eventually(t, "attachment pods", func(ctx context.Context) (bool, error) {
		pods, err := w.Kube.CoreV1().Pods(w.ProviderNamespace).List(ctx, metav1.ListOptions{LabelSelector: kubevirtv1.AppLabel + "=hotplug-disk"})
		if err != nil {
			return false, err
		}

		return len(pods.Items) == number && !slices.ContainsFunc(pods.Items, func(p corev1.Pod) bool {
			return p.Spec.NodeName != node || p.Status.Phase != corev1.PodRunning
		}), nil
	})
}

// awaitWrites waits until the guest has written a count, or a higher one.
func (w *worker) awaitWrites(t *testing.T, least int) {
	t.Helper()
	harness.Eventually(t, fmt.Sprintf("the guest has written %d", least), func(context.Context) (bool, error) {
		return w.writesOnVolume(t) >= least, nil //nolint:contextcheck // it ends with the test
	})
}

// writesOnVolume returns the count that is on the volume; zero if there is none.
func (w *worker) writesOnVolume(t *testing.T) int {
	t.Helper()

	count, _ := strconv.Atoi(strings.TrimSpace(w.contentOfVolume(t, 1)))

	return count
}

// contentOfVolume returns the text in a sector of the volume.
func (w *worker) contentOfVolume(t *testing.T, sector int64) string {
	t.Helper()

	claim, err := w.Kube.CoreV1().PersistentVolumeClaims(w.ProviderNamespace).Get(t.Context(), volumeName, metav1.GetOptions{})
	require.NoError(t, err)

	disk, err := os.Open(filepath.Join(harness.Lab().Nodes.Volumes(), claim.Spec.VolumeName, "disk.img"))
	require.NoError(t, err)
	defer disk.Close() //nolint:errcheck // read-only

	content := make([]byte, sectorSize)
	_, err = disk.ReadAt(content, sector*sectorSize)
	require.NoError(t, err)

	text, _, _ := strings.Cut(string(content), "\x00")

	return text
}

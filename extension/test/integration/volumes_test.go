// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/test/seed"
)

// volumeUser uses volumes of one StorageClass in a shoot, as its owner does. The real sidecars serve it.
type volumeUser struct {
	shoot *seed.Botanist
	// inShoot is a client with all permissions.
	inShoot client.Client
	node    string

	class string
	mode  corev1.PersistentVolumeMode
}

const (
	smallVolume = "1Gi"
	largeVolume = "2Gi"
)

// requireVolumes provisions volumes of both binding modes and both volume modes, attaches them to the shoot's machine,
// expands, snapshots, restores, clones, detaches and deletes them. Nothing remains in the provider cluster.
func requireVolumes(t *testing.T, shoot *seed.Botanist) {
	t.Helper()
	exposeImmediate(t, shoot)
	requireReadyNodes(t, shoot, 1)

	user := volumeUser{shoot: shoot, inShoot: snapshotClient(t), node: onlyMachine(t, shoot).Name}

	for _, tc := range []struct {
		class string
		mode  corev1.PersistentVolumeMode
	}{{"default", corev1.PersistentVolumeFilesystem}, {"immediate", corev1.PersistentVolumeBlock}} {
		if !t.Run(tc.class, func(t *testing.T) {
			u := user
			u.class = tc.class
			u.mode = tc.mode
			u.useVolumes(t)
		}) {
			return
		}
	}
}

// exposeImmediate exposes a second class of the provider cluster to the shoot, which binds volumes at once.
func exposeImmediate(t *testing.T, shoot *seed.Botanist) {
	t.Helper()

	config := &v1alpha1.CloudProfileConfig{}
	require.Empty(t, v1alpha1.Decode(shoot.Profile.Spec.ProviderConfig, nil, config))

	config.VolumeClasses = append(config.VolumeClasses, v1alpha1.VolumeClass{
		Name:              "immediate",
		ExposeAs:          "immediate",
		VolumeBindingMode: storagev1.VolumeBindingImmediate,
		SnapshotClass:     config.VolumeClasses[0].SnapshotClass,
	})
	shoot.Profile.Spec.ProviderConfig.Raw = encode(t, config)

	require.NoError(t, shoot.Reconcile(t.Context()))
	requireApplied(t, shoot, "extension-controlplane-storageclasses")
	requireDeployments(t, shoot, 1)
}

// snapshotClient returns a client for the shoot that knows the kinds of snapshots.
func snapshotClient(t *testing.T) client.Client {
	t.Helper()

	config, err := clientcmd.BuildConfigFromFlags("", theSeed.Kubeconfigs().Target)
	require.NoError(t, err)

	kinds := runtime.NewScheme()
	require.NoError(t, scheme.AddToScheme(kinds))
	require.NoError(t, snapshotv1.AddToScheme(kinds))

	c, err := client.New(config, client.Options{Scheme: kinds})
	require.NoError(t, err)

	return c
}

func (u *volumeUser) useVolumes(t *testing.T) {
	t.Helper()

	data := u.claim(t, "data", smallVolume, nil)
	if u.class == "immediate" {
		u.awaitBound(t, data) // without a pod
	}

	pods := []*corev1.Pod{u.pod(t, data)}
	u.awaitAttached(t, data)
	u.expand(t, data)

	snapshot := u.snapshot(t, data)
	restored := u.claim(t, "restored", largeVolume, &corev1.TypedLocalObjectReference{
		APIGroup: ptr.To(snapshotv1.GroupName),
		Kind:     "VolumeSnapshot",
		Name:     snapshot.Name,
	})
	cloned := u.claim(t, "cloned", largeVolume, &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: data.Name})

	for _, claim := range []*corev1.PersistentVolumeClaim{restored, cloned} {
		pods = append(pods, u.pod(t, claim))
		u.awaitAttached(t, claim)
	}

	for _, pod := range pods {
		require.NoError(t, u.inShoot.Delete(t.Context(), pod))
	}

	u.awaitDetached(t)

	for _, object := range []client.Object{snapshot, data, restored, cloned} {
		require.NoError(t, u.inShoot.Delete(t.Context(), object))
	}

	u.awaitNothing(t)
}

// claim creates a claim.
func (u *volumeUser) claim(t *testing.T, name, size string, source *corev1.TypedLocalObjectReference) *corev1.PersistentVolumeClaim {
	t.Helper()

	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: u.class + "-" + name},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &u.class,
			VolumeMode:       &u.mode,
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			DataSource:       source,
			Resources:        corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}},
		},
	}
	require.NoError(t, u.inShoot.Create(t.Context(), claim))

	return claim
}

// pod creates a pod that uses a claim on the shoot's only Node: other shoots have Nodes in this cluster, too.
func (u *volumeUser) pod(t *testing.T, claim *corev1.PersistentVolumeClaim) *corev1.Pod {
	t.Helper()

	container := corev1.Container{Name: "reader", Image: "reader"}
	if u.mode == corev1.PersistentVolumeBlock {
		container.VolumeDevices = []corev1.VolumeDevice{{Name: "data", DevicePath: "/dev/data"}}
	} else {
		container.VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
	}

	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: claim.Namespace, Name: claim.Name},
		Spec: corev1.PodSpec{
			NodeSelector: map[string]string{corev1.LabelHostname: u.node},
			Containers:   []corev1.Container{container},
			Volumes: []corev1.Volume{{
				Name: "data",
				VolumeSource: corev1.VolumeSource{
					PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name},
				},
			}},
		},
	}
	require.NoError(t, u.inShoot.Create(t.Context(), pod))

	return pod
}

// awaitBound waits until csi-provisioner has made the volume of a claim, and returns it.
func (u *volumeUser) awaitBound(t *testing.T, claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolume {
	t.Helper()

	volume := &corev1.PersistentVolume{}

	eventually(t, func(ctx context.Context) (bool, string) {
		if err := u.inShoot.Get(ctx, client.ObjectKeyFromObject(claim), claim); err != nil || claim.Status.Phase != corev1.ClaimBound {
			return false, fmt.Sprintf("claim %s is %s, %v: %s", claim.Name, claim.Status.Phase, err, u.events(ctx, claim))
		}

		err := u.inShoot.Get(ctx, client.ObjectKey{Name: claim.Spec.VolumeName}, volume)

		return err == nil, fmt.Sprint(err)
	})

	return volume
}

// events returns the messages of an object's events.
func (u *volumeUser) events(ctx context.Context, object client.Object) string {
	list := &corev1.EventList{}
	if err := u.inShoot.List(ctx, list, client.InNamespace(object.GetNamespace())); err != nil {
		return err.Error()
	}

	var messages []string

	for _, event := range list.Items {
		if event.InvolvedObject.UID == object.GetUID() {
			messages = append(messages, event.Reason+" "+event.Message)
		}
	}

	return strings.Join(messages, "; ")
}

// awaitAttached waits until csi-attacher has attached the volume of a claim to the Node, which KubeVirt has hot-plugged
// into the machine.
func (u *volumeUser) awaitAttached(t *testing.T, claim *corev1.PersistentVolumeClaim) {
	t.Helper()

	volume := u.awaitBound(t, claim)
	handle := volume.Spec.CSI.VolumeHandle

	eventually(t, func(ctx context.Context) (bool, string) {
		list := &storagev1.VolumeAttachmentList{}
		if err := u.inShoot.List(ctx, list); err != nil {
			return false, err.Error()
		}

		i := slices.IndexFunc(list.Items, func(a storagev1.VolumeAttachment) bool {
			return ptr.Deref(a.Spec.Source.PersistentVolumeName, "") == volume.Name
		})
		if i < 0 || !list.Items[i].Status.Attached {
			return false, fmt.Sprintf("%s is not attached: %v", claim.Name, list.Items)
		}

		return list.Items[i].Spec.NodeName == u.node, list.Items[i].Spec.NodeName
	})

	vmi := &kubevirtv1.VirtualMachineInstance{}
	vm := &kubevirtv1.VirtualMachine{}
	key := client.ObjectKey{Namespace: u.shoot.ProviderNamespace, Name: u.node}
	require.NoError(t, theSeed.Provider.Get(t.Context(), key, vmi))
	require.NoError(t, theSeed.Provider.Get(t.Context(), key, vm))
	require.True(t, slices.ContainsFunc(vmi.Status.VolumeStatus, func(s kubevirtv1.VolumeStatus) bool {
		return s.Name == handle && s.HotplugVolume != nil && s.Phase == kubevirtv1.VolumeReady
	}), "hot-plugged: %v", vmi.Status.VolumeStatus)
	require.True(t, slices.ContainsFunc(vm.Spec.Template.Spec.Volumes, func(v kubevirtv1.Volume) bool { return v.Name == handle }))

	// CDI reports the phase some time after the claim has its volume.
	eventually(t, func(ctx context.Context) (bool, string) {
		source := &cdiv1beta1.DataVolume{}
		err := theSeed.Provider.Get(ctx, client.ObjectKey{Namespace: key.Namespace, Name: handle}, source)

		return err == nil && source.Status.Phase == cdiv1beta1.Succeeded, fmt.Sprintf("%v %s", err, source.Status.Phase)
	})
}

// expand waits until csi-resizer has expanded the volume in the provider cluster. A kubelet would expand a file system.
func (u *volumeUser) expand(t *testing.T, claim *corev1.PersistentVolumeClaim) {
	t.Helper()

	patch := `{"spec":{"resources":{"requests":{"storage":"` + largeVolume + `"}}}}`
	require.NoError(t, u.inShoot.Patch(t.Context(), claim, client.RawPatch(types.MergePatchType, []byte(patch))))

	want := resource.MustParse(largeVolume)

	eventually(t, func(ctx context.Context) (bool, string) {
		if err := u.inShoot.Get(ctx, client.ObjectKeyFromObject(claim), claim); err != nil {
			return false, err.Error()
		}

		done := claim.Status.Capacity.Storage().Cmp(want) == 0
		if u.mode == corev1.PersistentVolumeFilesystem {
			done = slices.ContainsFunc(claim.Status.Conditions, func(c corev1.PersistentVolumeClaimCondition) bool {
				return c.Type == corev1.PersistentVolumeClaimFileSystemResizePending
			})
		}

		return done, fmt.Sprintf("%v %s", claim.Status, u.events(ctx, claim))
	})

	volume := u.awaitBound(t, claim)
	stored := &corev1.PersistentVolumeClaim{}
	require.Zero(t, volume.Spec.Capacity.Storage().Cmp(want))
	require.NoError(t, theSeed.Provider.Get(t.Context(), client.ObjectKey{Namespace: u.shoot.ProviderNamespace, Name: volume.Spec.CSI.VolumeHandle}, stored))
	require.Zero(t, stored.Status.Capacity.Storage().Cmp(want))
}

// snapshot waits until snapshot-controller and csi-snapshotter have made a snapshot of a claim.
func (u *volumeUser) snapshot(t *testing.T, claim *corev1.PersistentVolumeClaim) *snapshotv1.VolumeSnapshot {
	t.Helper()

	snapshot := &snapshotv1.VolumeSnapshot{
		ObjectMeta: metav1.ObjectMeta{Namespace: claim.Namespace, Name: claim.Name},
		Spec: snapshotv1.VolumeSnapshotSpec{
			Source:                  snapshotv1.VolumeSnapshotSource{PersistentVolumeClaimName: &claim.Name},
			VolumeSnapshotClassName: &u.class,
		},
	}
	require.NoError(t, u.inShoot.Create(t.Context(), snapshot))

	eventually(t, func(ctx context.Context) (bool, string) {
		err := u.inShoot.Get(ctx, client.ObjectKeyFromObject(snapshot), snapshot)

		return err == nil && snapshot.Status != nil && ptr.Deref(snapshot.Status.ReadyToUse, false),
			fmt.Sprintf("%v %v %s", err, snapshot.Status, u.events(ctx, snapshot))
	})
	require.Equal(t, largeVolume, snapshot.Status.RestoreSize.String())

	return snapshot
}

// awaitDetached waits until no volume is attached to the Node, or hot-plugged into the machine.
func (u *volumeUser) awaitDetached(t *testing.T) {
	t.Helper()
	eventually(t, func(ctx context.Context) (bool, string) {
		attachments := &storagev1.VolumeAttachmentList{}
		vmi := &kubevirtv1.VirtualMachineInstance{}
		if err := u.inShoot.List(ctx, attachments); err != nil {
			return false, err.Error()
		}

		if err := theSeed.Provider.Get(ctx, client.ObjectKey{Namespace: u.shoot.ProviderNamespace, Name: u.node}, vmi); err != nil {
			return false, err.Error()
		}

		plugged := slices.ContainsFunc(vmi.Status.VolumeStatus, func(s kubevirtv1.VolumeStatus) bool { return s.HotplugVolume != nil })

		return len(attachments.Items) == 0 && !plugged, fmt.Sprintf("%v %v", attachments.Items, vmi.Status.VolumeStatus)
	})
}

// awaitNothing waits until no volume or snapshot remains in the shoot or in the provider cluster.
func (u *volumeUser) awaitNothing(t *testing.T) {
	t.Helper()
	eventually(t, func(ctx context.Context) (bool, string) {
		left := []string{}

		for _, l := range []struct {
			cluster client.Client
			list    client.ObjectList
			in      []client.ListOption
		}{
			{u.inShoot, &corev1.PersistentVolumeList{}, nil},
			{u.inShoot, &corev1.PersistentVolumeClaimList{}, nil},
			{u.inShoot, &snapshotv1.VolumeSnapshotList{}, nil},
			{u.inShoot, &snapshotv1.VolumeSnapshotContentList{}, nil},
			{theSeed.Provider, &cdiv1beta1.DataVolumeList{}, u.inProvider()},
			{theSeed.Provider, &snapshotv1.VolumeSnapshotList{}, u.inProvider()},
			{theSeed.Provider, &corev1.PersistentVolumeClaimList{}, u.inProvider()},
		} {
			if err := l.cluster.List(ctx, l.list, l.in...); err != nil && !apierrors.IsNotFound(err) {
				return false, err.Error()
			}

			left = append(left, namesIn(l.list)...)
		}

		return len(left) == 0, strings.Join(left, ", ")
	})
}

// inProvider selects the volumes and snapshots of the shoot in the provider cluster.
func (u *volumeUser) inProvider() []client.ListOption {
	return []client.ListOption{
		client.InNamespace(u.shoot.ProviderNamespace), client.MatchingLabels{"kubevirt.provider.extensions.gardener.cloud/cluster": u.shoot.Namespace},
	}
}

// namesIn returns the types and names of the objects in a list.
func namesIn(list client.ObjectList) (names []string) {
	_ = meta.EachListItem(list, func(item runtime.Object) error {
		object, err := meta.Accessor(item)
		if err == nil {
			names = append(names, fmt.Sprintf("%T %s", item, object.GetName()))
		}

		return err
	})

	return names
}

// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package seed

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/charts"
)

const (
	// providerStorage is the provisioner of the provider cluster's storage classes (test/lab/dataplane).
	providerStorage = "csi.lab.local"
	// snapshotClass is the VolumeSnapshotClass in ExampleCloudProfile.
	snapshotClass = "snapshots"
)

// applySnapshots applies the kinds of snapshots, and a class, to the provider cluster. They are those that the
// extension applies to shoots.
func (s *Seed) applySnapshots(ctx context.Context) error {
	const folder = charts.Path + "/shoot-crds/generated"

	files, err := fs.ReadDir(charts.Internal, folder)
	if err != nil {
		return err
	}

	var kinds []string

	for _, file := range files {
		content, err := fs.ReadFile(charts.Internal, path.Join(folder, file.Name()))
		if err != nil {
			return err
		}

		kinds = append(kinds, strings.Replace(string(content), "  annotations:\n", "  annotations:\n    api-approved.kubernetes.io: \"unapproved, for tests\"\n", 1))
	}

	if err := s.apply(ctx, s.state.ProviderKubeconfig, "snapshots", strings.Join(kinds, "\n---\n")); err != nil {
		return err
	}

	const every, atMost = 200 * time.Millisecond, time.Minute

	class := &snapshotv1.VolumeSnapshotClass{
		ObjectMeta:     metav1.ObjectMeta{Name: snapshotClass},
		Driver:         providerStorage,
		DeletionPolicy: snapshotv1.VolumeSnapshotContentDelete,
	}

	return wait.PollUntilContextTimeout(ctx, every, atMost, true, func(ctx context.Context) (bool, error) {
		err := s.Provider.Create(ctx, class)
		if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
			return false, nil // The API server does not serve the kind yet.
		}

		return true, client.IgnoreAlreadyExists(err)
	})
}

// provideSnapshots does what a snapshot controller and a CSI driver do for the VolumeSnapshots in a namespace of
// the provider cluster. A snapshot has no content.
func (s *Seed) provideSnapshots(ctx context.Context, namespace string) error {
	snapshots := &snapshotv1.VolumeSnapshotList{}
	contents := &snapshotv1.VolumeSnapshotContentList{}
	if err := s.Provider.List(ctx, snapshots, client.InNamespace(namespace)); err != nil {
		return err
	}

	present := sets.New[string]()

	for i := range snapshots.Items {
		snapshot := &snapshots.Items[i]
		present.Insert(contentName(snapshot))

		if err := s.provideSnapshot(ctx, snapshot); err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			return fmt.Errorf("make snapshot %s: %w", snapshot.Name, err)
		}
	}

	if err := s.Provider.List(ctx, contents); err != nil {
		return err
	}

	var ours []*snapshotv1.VolumeSnapshotContent

	for i := range contents.Items {
		if contents.Items[i].Spec.VolumeSnapshotRef.Namespace == namespace {
			ours = append(ours, &contents.Items[i])
		}
	}

	return deleteAll(ctx, s.Provider, ours, func(c *snapshotv1.VolumeSnapshotContent) bool { return present.Has(c.Name) })
}

func contentName(snapshot *snapshotv1.VolumeSnapshot) string {
	return "snapcontent-" + string(snapshot.UID)
}

func (s *Seed) provideSnapshot(ctx context.Context, snapshot *snapshotv1.VolumeSnapshot) error {
	if snapshot.Status != nil && ptr.Deref(snapshot.Status.ReadyToUse, false) || snapshot.DeletionTimestamp != nil {
		return nil
	}

	claim := &corev1.PersistentVolumeClaim{}
	if err := s.Provider.Get(ctx, client.ObjectKey{Namespace: snapshot.Namespace, Name: *snapshot.Spec.Source.PersistentVolumeClaimName}, claim); err != nil {
		return err
	}

	content := &snapshotv1.VolumeSnapshotContent{
		ObjectMeta: metav1.ObjectMeta{Name: contentName(snapshot)},
		Spec: snapshotv1.VolumeSnapshotContentSpec{
			DeletionPolicy:          snapshotv1.VolumeSnapshotContentDelete,
			Driver:                  providerStorage,
			VolumeSnapshotClassName: snapshot.Spec.VolumeSnapshotClassName,
			Source:                  snapshotv1.VolumeSnapshotContentSource{VolumeHandle: &claim.Spec.VolumeName},
			SourceVolumeMode:        claim.Spec.VolumeMode,
			VolumeSnapshotRef:       corev1.ObjectReference{Namespace: snapshot.Namespace, Name: snapshot.Name, UID: snapshot.UID},
		},
	}
	if err := s.Provider.Create(ctx, content); client.IgnoreAlreadyExists(err) != nil {
		return err
	}

	size := claim.Status.Capacity[corev1.ResourceStorage]
	snapshot.Status = &snapshotv1.VolumeSnapshotStatus{
		BoundVolumeSnapshotContentName: &content.Name,
		ReadyToUse:                     ptr.To(true),
		RestoreSize:                    &size,
		CreationTime:                   ptr.To(metav1.Now()),
	}

	return s.Provider.Status().Update(ctx, snapshot)
}

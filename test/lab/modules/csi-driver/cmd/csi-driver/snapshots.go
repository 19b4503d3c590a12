// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// CreateSnapshot creates a VolumeSnapshot, and waits until it is ready.
func (c *controller) CreateSnapshot(ctx context.Context, r *csi.CreateSnapshotRequest) (*csi.CreateSnapshotResponse, error) {
	snapshot := &snapshotv1.VolumeSnapshot{}
	found, err := exists(c.getOurs(ctx, r.GetName(), "", snapshot))
	if err != nil {
		return nil, err
	}
	if !found {
		if snapshot, err = c.newSnapshot(ctx, r); err != nil {
			return nil, err
		}
	}
	if sourceOf(snapshot) != r.GetSourceVolumeId() {
		return nil, status.Errorf(codes.AlreadyExists, "snapshot %s of another volume already exists", r.GetName())
	}
	return &csi.CreateSnapshotResponse{Snapshot: answer(snapshot)}, nil
}

func (c *controller) newSnapshot(ctx context.Context, r *csi.CreateSnapshotRequest) (*snapshotv1.VolumeSnapshot, error) {
	source := r.GetSourceVolumeId()
	if _, err := c.volume(ctx, source); err != nil {
		return nil, notFound(err, "source volume "+source)
	}
	class, err := c.classOfSnapshot(ctx, source, r.GetParameters()["infraSnapshotClassName"])
	if err != nil {
		return nil, err
	}
	snapshot := &snapshotv1.VolumeSnapshot{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: r.GetName(), Labels: c.labels},
		Spec: snapshotv1.VolumeSnapshotSpec{
			Source:                  snapshotv1.VolumeSnapshotSource{PersistentVolumeClaimName: &source},
			VolumeSnapshotClassName: &class,
		},
	}
	if err := c.infra.Create(ctx, snapshot); err != nil {
		return nil, err
	}
	return snapshot, wait.PollUntilContextTimeout(ctx, every, patience, true, func(ctx context.Context) (bool, error) {
		err := c.getOurs(ctx, r.GetName(), "", snapshot)
		return err == nil && answer(snapshot).GetReadyToUse(), err
	})
}

// DeleteSnapshot deletes a VolumeSnapshot.
func (c *controller) DeleteSnapshot(ctx context.Context, r *csi.DeleteSnapshotRequest) (*csi.DeleteSnapshotResponse, error) {
	snapshot := &snapshotv1.VolumeSnapshot{}
	found, err := exists(c.getOurs(ctx, r.GetSnapshotId(), "", snapshot))
	if err != nil || !found {
		return &csi.DeleteSnapshotResponse{}, err
	}
	return &csi.DeleteSnapshotResponse{}, c.infra.Delete(ctx, snapshot)
}

// ListSnapshots returns one snapshot, or all.
func (c *controller) ListSnapshots(ctx context.Context, r *csi.ListSnapshotsRequest) (*csi.ListSnapshotsResponse, error) {
	list := &snapshotv1.VolumeSnapshotList{}
	if id := r.GetSnapshotId(); id != "" {
		snapshot := &snapshotv1.VolumeSnapshot{}
		found, err := exists(c.getOurs(ctx, id, "", snapshot))
		if err != nil {
			return nil, err
		}
		if found {
			list.Items = append(list.Items, *snapshot)
		}
	} else if err := c.infra.List(ctx, list, client.InNamespace(c.namespace), client.MatchingLabels(c.labels)); err != nil {
		return nil, err
	}
	response := &csi.ListSnapshotsResponse{}
	for i := range list.Items {
		if wanted := r.GetSourceVolumeId(); wanted == "" || wanted == sourceOf(&list.Items[i]) {
			response.Entries = append(response.Entries, &csi.ListSnapshotsResponse_Entry{Snapshot: answer(&list.Items[i])})
		}
	}
	return response, nil
}

func sourceOf(s *snapshotv1.VolumeSnapshot) string {
	if s.Spec.Source.PersistentVolumeClaimName == nil {
		return ""
	}
	return *s.Spec.Source.PersistentVolumeClaimName
}

func answer(s *snapshotv1.VolumeSnapshot) *csi.Snapshot {
	a := &csi.Snapshot{SnapshotId: s.Name, SourceVolumeId: sourceOf(s), CreationTime: timestamppb.New(s.CreationTimestamp.Time)}
	if s.Status != nil && s.Status.ReadyToUse != nil {
		a.ReadyToUse = *s.Status.ReadyToUse
	}
	if s.Status != nil && s.Status.RestoreSize != nil {
		a.SizeBytes = s.Status.RestoreSize.Value()
	}
	return a
}

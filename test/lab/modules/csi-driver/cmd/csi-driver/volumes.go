// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/container-storage-interface/spec/lib/go/csi"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// controller is the controller service (pkg/service/controller.go).
type controller struct {
	csi.UnimplementedControllerServer
	*driver
}

func (*controller) ControllerGetCapabilities(context.Context, *csi.ControllerGetCapabilitiesRequest) (*csi.ControllerGetCapabilitiesResponse, error) {
	response := &csi.ControllerGetCapabilitiesResponse{}
	for _, t := range []csi.ControllerServiceCapability_RPC_Type{
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME, csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME,
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT, csi.ControllerServiceCapability_RPC_LIST_SNAPSHOTS,
		csi.ControllerServiceCapability_RPC_CLONE_VOLUME, csi.ControllerServiceCapability_RPC_EXPAND_VOLUME,
	} {
		response.Capabilities = append(response.Capabilities, &csi.ControllerServiceCapability{
			Type: &csi.ControllerServiceCapability_Rpc{Rpc: &csi.ControllerServiceCapability_RPC{Type: t}},
		})
	}
	return response, nil
}

// CreateVolume creates a DataVolume, and does not wait for it.
func (c *controller) CreateVolume(ctx context.Context, r *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	class := r.GetParameters()["infraStorageClassName"]
	if !c.allows(class) {
		return nil, status.Error(codes.InvalidArgument, "infraStorageclass is not in the allowed list")
	}
	wanted, err := c.render(ctx, r, class)
	if err != nil {
		return nil, err
	}
	stored, err := c.volume(ctx, r.GetName())
	found, err := exists(err)
	if err != nil {
		return nil, err
	}
	if !found {
		stored = wanted
		if err := c.infra.Create(ctx, stored); err != nil {
			return nil, err
		}
	}
	if stored.Spec.Storage.Resources.Requests.Storage().Cmp(*wanted.Spec.Storage.Resources.Requests.Storage()) != 0 {
		return nil, status.Error(codes.AlreadyExists, "Requested storage size does not match existing size")
	}
	return &csi.CreateVolumeResponse{Volume: &csi.Volume{
		CapacityBytes: r.GetCapacityRange().GetRequiredBytes(),
		VolumeId:      r.GetName(),
		ContentSource: r.GetVolumeContentSource(),
		VolumeContext: map[string]string{"bus": r.GetParameters()["bus"], "serial": string(stored.UID)},
	}}, nil
}

func (c *controller) render(ctx context.Context, r *csi.CreateVolumeRequest, class string) (*cdiv1beta1.DataVolume, error) {
	storage := &cdiv1beta1.StorageSpec{
		StorageClassName: &class,
		Resources: corev1.VolumeResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceStorage: *resource.NewScaledQuantity(r.GetCapacityRange().GetRequiredBytes(), 0)},
		},
	}
	shared, err := modes(r.GetVolumeCapabilities())
	if err != nil {
		return nil, err
	}
	if shared {
		storage.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
	}
	source, err := c.sourceOf(ctx, r.GetVolumeContentSource(), storage)
	if err != nil {
		return nil, err
	}
	return &cdiv1beta1.DataVolume{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:   c.namespace,
			Name:        r.GetName(),
			Labels:      c.labels,
			Annotations: map[string]string{"cdi.kubevirt.io/storage.deleteAfterCompletion": "false"},
		},
		Spec: cdiv1beta1.DataVolumeSpec{Storage: storage, Source: source},
	}, nil
}

// modes reports whether several machines may attach a volume.
func modes(capabilities []*csi.VolumeCapability) (shared bool, _ error) {
	for _, capability := range capabilities {
		if isShared(capability) && capability.GetBlock() == nil {
			return false, status.Error(codes.InvalidArgument, "non-block volume with RWX access mode is not supported")
		}
		shared = shared || isShared(capability)
	}
	return shared, nil
}

func isShared(capability *csi.VolumeCapability) bool {
	switch capability.GetAccessMode().GetMode() {
	case csi.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY, csi.VolumeCapability_AccessMode_MULTI_NODE_SINGLE_WRITER,
		csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER:
		return true
	default:
		return false
	}
}

// sourceOf returns the source of a DataVolume: determineDvSource. That of a clone is in its storage.
func (c *controller) sourceOf(ctx context.Context, source *csi.VolumeContentSource, storage *cdiv1beta1.StorageSpec) (*cdiv1beta1.DataVolumeSource, error) {
	if id := source.GetSnapshot().GetSnapshotId(); id != "" {
		snapshot := &snapshotv1.VolumeSnapshot{}
		if err := c.getOurs(ctx, id, "", snapshot); err != nil {
			return nil, notFound(err, "source snapshot content "+id)
		}
		return &cdiv1beta1.DataVolumeSource{Snapshot: &cdiv1beta1.DataVolumeSourceSnapshot{Namespace: c.namespace, Name: id}}, nil
	}
	if id := source.GetVolume().GetVolumeId(); id != "" {
		if _, err := c.volume(ctx, id); err != nil {
			return nil, notFound(err, "source volume content "+id)
		}
		storage.DataSourceRef = &corev1.TypedObjectReference{Kind: "PersistentVolumeClaim", Name: id}
		return nil, nil //nolint:nilnil // as KubeVirt's driver
	}
	return &cdiv1beta1.DataVolumeSource{Blank: &cdiv1beta1.DataVolumeBlankImage{}}, nil
}

func notFound(err error, what string) error {
	if apierrors.IsNotFound(err) {
		return status.Error(codes.NotFound, what+" not found")
	}
	return err
}

// DeleteVolume deletes a DataVolume, and does not wait for its end.
func (c *controller) DeleteVolume(ctx context.Context, r *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	volume, err := c.volume(ctx, r.GetVolumeId())
	if found, err := exists(err); err != nil || !found {
		return &csi.DeleteVolumeResponse{}, err
	}
	return &csi.DeleteVolumeResponse{}, c.infra.Delete(ctx, volume)
}

// ControllerExpandVolume expands the claim, and waits until its volume is expanded.
func (c *controller) ControllerExpandVolume(ctx context.Context, r *csi.ControllerExpandVolumeRequest) (*csi.ControllerExpandVolumeResponse, error) {
	size := r.GetCapacityRange().GetRequiredBytes()
	claim := &corev1.PersistentVolumeClaim{}
	if err := c.getOurs(ctx, r.GetVolumeId(), volumePrefix, claim); err != nil {
		return nil, notFound(err, "volume "+r.GetVolumeId())
	}
	if claim.Spec.Resources.Requests.Storage().Value() < size {
		patch := fmt.Sprintf(`[{"op":"add","path":"/spec/resources/requests/storage","value":"%d" }]`, size)
		if err := c.infra.Patch(ctx, claim, client.RawPatch(types.JSONPatchType, []byte(patch))); err != nil {
			return nil, status.Errorf(codes.Internal, "Failed to expand PVC %s: %v", r.GetVolumeId(), err)
		}
	}
	volume := &corev1.PersistentVolume{}
	err := wait.PollUntilContextTimeout(ctx, every, patience, true, func(ctx context.Context) (bool, error) {
		err := c.infra.Get(ctx, client.ObjectKey{Name: claim.Spec.VolumeName}, volume)
		return err == nil && volume.Spec.Capacity.Storage().Value() >= size, err
	})
	return &csi.ControllerExpandVolumeResponse{CapacityBytes: size, NodeExpansionRequired: r.GetVolumeCapability().GetBlock() == nil}, err
}

// ValidateVolumeCapabilities is not called by the sidecars.
func (*controller) ValidateVolumeCapabilities(context.Context, *csi.ValidateVolumeCapabilitiesRequest) (*csi.ValidateVolumeCapabilitiesResponse, error) {
	return nil, errors.ErrUnsupported
}

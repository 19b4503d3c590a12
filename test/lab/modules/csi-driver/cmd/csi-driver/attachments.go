// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/util/wait"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	machines  = "virtualmachines"
	instances = "virtualmachineinstances"
)

// machineOf returns the name of the VirtualMachine in a node ID: namespace/name.
func machineOf(nodeID string) string { return nodeID[strings.LastIndex(nodeID, "/")+1:] }

// ControllerPublishVolume attaches a volume to a running machine, and waits for it.
func (c *controller) ControllerPublishVolume(ctx context.Context, r *csi.ControllerPublishVolumeRequest) (*csi.ControllerPublishVolumeResponse, error) {
	volume := r.GetVolumeId()
	machine := machineOf(r.GetNodeId())
	if !isShared(r.GetVolumeCapability()) {
		if err := c.requireFree(ctx, volume, machine); err != nil {
			return nil, err
		}
	}
	if _, err := c.volume(ctx, volume); err != nil {
		return nil, notFound(err, "volume "+volume)
	}
	attached, err := c.inMachine(ctx, machine, volume)
	if err != nil {
		return nil, notFound(err, "vm "+machine)
	}
	if attached { // KubeVirt's driver trusts the machine's spec, too.
		return &csi.ControllerPublishVolumeResponse{}, nil
	}
	options := &kubevirtv1.AddVolumeOptions{
		Name: volume,
		Disk: &kubevirtv1.Disk{
			Serial:     r.GetVolumeContext()["serial"],
			DiskDevice: kubevirtv1.DiskDevice{Disk: &kubevirtv1.DiskTarget{Bus: kubevirtv1.DiskBus(r.GetVolumeContext()["bus"])}},
		},
		VolumeSource: &kubevirtv1.HotplugVolumeSource{DataVolume: &kubevirtv1.DataVolumeSource{Name: volume}},
	}
	if err := c.put(ctx, machines, machine, "addvolume", options); err != nil {
		return nil, fmt.Errorf("add volume %s to VM %s: %w", volume, machine, err)
	}
	return &csi.ControllerPublishVolumeResponse{}, c.awaitAttached(ctx, machine, volume)
}

// requireFree refuses a volume that another machine has: IsVolumeAttachedToOtherVMI.
func (c *controller) requireFree(ctx context.Context, volume, machine string) error {
	list := &kubevirtv1.VirtualMachineInstanceList{}
	if err := c.infra.List(ctx, list, client.InNamespace(c.namespace)); err != nil {
		return status.Errorf(codes.FailedPrecondition, "failed to check if volume is already attached: %s", err)
	}
	for i := range list.Items {
		if vmi := &list.Items[i]; vmi.Name != machine && statusOf(vmi, volume) != nil {
			return status.Error(codes.FailedPrecondition, "volume is attached to another VM")
		}
	}
	return nil
}

// awaitAttached waits until the volume is ready in the instance and part of the machine: EnsureVolumeAvailable.
func (c *controller) awaitAttached(ctx context.Context, machine, volume string) error {
	return wait.PollUntilContextTimeout(ctx, every, patience, true, func(ctx context.Context) (bool, error) {
		vmi := &kubevirtv1.VirtualMachineInstance{}
		if err := c.get(ctx, machine, vmi); err != nil {
			return false, err
		}
		if s := statusOf(vmi, volume); s == nil || s.Phase != kubevirtv1.VolumeReady {
			return false, nil
		}
		return c.inMachine(ctx, machine, volume)
	})
}

// ControllerUnpublishVolume detaches a volume, and waits for it. The machine or the instance may be gone.
func (c *controller) ControllerUnpublishVolume(ctx context.Context, r *csi.ControllerUnpublishVolumeRequest) (*csi.ControllerUnpublishVolumeResponse, error) {
	volume := r.GetVolumeId()
	machine := machineOf(r.GetNodeId())
	inMachine, inInstance, err := c.attached(ctx, machine, volume)
	if err != nil || !inMachine && !inInstance {
		return &csi.ControllerUnpublishVolumeResponse{}, err
	}
	from := machines
	if !inMachine { // The machine has lost it already: removeVolumeFromVm.
		from = instances
	}
	if err := c.put(ctx, from, machine, "removevolume", &kubevirtv1.RemoveVolumeOptions{Name: volume}); err != nil {
		return nil, fmt.Errorf("remove volume %s from %s %s: %w", volume, from, machine, err)
	}
	err = wait.PollUntilContextTimeout(ctx, every, patience, true, func(ctx context.Context) (bool, error) {
		inMachine, inInstance, err := c.attached(ctx, machine, volume)
		return err == nil && !inMachine && !inInstance, err
	})
	return &csi.ControllerUnpublishVolumeResponse{}, err
}

// attached reports whether the machine or the instance has a volume: volumeStillAttached.
func (c *controller) attached(ctx context.Context, machine, volume string) (inMachine, inInstance bool, _ error) {
	inMachine, err := c.inMachine(ctx, machine, volume)
	if client.IgnoreNotFound(err) != nil {
		return false, false, err
	}
	inInstance, err = c.inInstance(ctx, machine, volume)
	return inMachine, inInstance, err
}

// inMachine reports whether a VirtualMachine has a volume.
func (c *controller) inMachine(ctx context.Context, machine, volume string) (bool, error) {
	vm := &kubevirtv1.VirtualMachine{}
	if err := c.get(ctx, machine, vm); err != nil {
		return false, err
	}
	return slices.ContainsFunc(vm.Spec.Template.Spec.Volumes, func(v kubevirtv1.Volume) bool {
		return v.Name == volume && (v.DataVolume != nil || v.PersistentVolumeClaim != nil)
	}), nil
}

// inInstance reports whether a VirtualMachineInstance reports a volume.
func (c *controller) inInstance(ctx context.Context, machine, volume string) (bool, error) {
	vmi := &kubevirtv1.VirtualMachineInstance{}
	found, err := exists(c.get(ctx, machine, vmi))
	return found && statusOf(vmi, volume) != nil, err
}

func statusOf(vmi *kubevirtv1.VirtualMachineInstance, volume string) *kubevirtv1.VolumeStatus {
	for i := range vmi.Status.VolumeStatus {
		if vmi.Status.VolumeStatus[i].Name == volume {
			return &vmi.Status.VolumeStatus[i]
		}
	}
	return nil
}

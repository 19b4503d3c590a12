// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// logWatchError logs the error because of which evacuations are currently not detected.
func (e *evacuations) logWatchError(ctx context.Context, err error) {
	klog.FromContext(ctx).Error(err, "Failed to watch for evacuations; retrying. If a permission is missing, apply kubernetes/evacuation",
		"server", e.clients.Server, "namespace", e.clients.Namespace)
}

// isRelevantChange reports whether a field that evacuations depend on has changed. KubeVirt updates
// other fields of instances, such as those of the guest agent, all the time.
func isRelevantChange(before, after any) bool {
	from, fromInstance := before.(*kubevirtv1.VirtualMachineInstance)
	to, toInstance := after.(*kubevirtv1.VirtualMachineInstance)

	return !fromInstance || !toInstance || !equality.Semantic.DeepEqual(from.Status, to.Status) ||
		!to.DeletionTimestamp.Equal(from.DeletionTimestamp)
}

// trim reduces an instance or a migration to the fields that evacuations depend on, to save memory in
// the cache.
func trim(object any) (any, error) {
	switch object := object.(type) {
	case *kubevirtv1.VirtualMachineInstance:
		return trimInstance(object), nil
	case *kubevirtv1.VirtualMachineInstanceMigration:
		return trimMigration(object), nil
	default:
		return nil, fmt.Errorf("unexpected type %T", object)
	}
}

func trimInstance(instance *kubevirtv1.VirtualMachineInstance) *kubevirtv1.VirtualMachineInstance {
	trimmed := &kubevirtv1.VirtualMachineInstance{
		ObjectMeta: trimMeta(&instance.ObjectMeta),
		Spec:       kubevirtv1.VirtualMachineInstanceSpec{EvictionStrategy: instance.Spec.EvictionStrategy},
		Status: kubevirtv1.VirtualMachineInstanceStatus{
			Phase:              instance.Status.Phase,
			NodeName:           instance.Status.NodeName,
			EvacuationNodeName: instance.Status.EvacuationNodeName,
		},
	}

	for _, c := range instance.Status.Conditions {
		if c.Type == kubevirtv1.VirtualMachineInstanceEvictionRequested || c.Type == kubevirtv1.VirtualMachineInstanceIsMigratable {
			trimmed.Status.Conditions = append(trimmed.Status.Conditions, c)
		}
	}

	if memory := instance.Spec.Domain.Memory; memory != nil {
		trimmed.Spec.Domain.Memory = &kubevirtv1.Memory{Guest: memory.Guest}
	}

	if state := instance.Status.MigrationState; state != nil {
		trimmed.Status.MigrationState = &kubevirtv1.VirtualMachineInstanceMigrationState{
			StartTimestamp: state.StartTimestamp,
			EndTimestamp:   state.EndTimestamp,
			SourceNode:     state.SourceNode,
		}
	}

	return trimmed
}

func trimMigration(migration *kubevirtv1.VirtualMachineInstanceMigration) *kubevirtv1.VirtualMachineInstanceMigration {
	return &kubevirtv1.VirtualMachineInstanceMigration{
		ObjectMeta: trimMeta(&migration.ObjectMeta),
		Status: kubevirtv1.VirtualMachineInstanceMigrationStatus{
			Phase:                     migration.Status.Phase,
			Conditions:                migration.Status.Conditions,
			PhaseTransitionTimestamps: migration.Status.PhaseTransitionTimestamps,
		},
	}
}

func trimMeta(meta *metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name:              meta.Name,
		Namespace:         meta.Namespace,
		UID:               meta.UID,
		ResourceVersion:   meta.ResourceVersion,
		CreationTimestamp: meta.CreationTimestamp,
		DeletionTimestamp: meta.DeletionTimestamp,
	}
}

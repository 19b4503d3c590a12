package providercluster

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// logBlindness says why drains of provider nodes are not seen at the moment.
func (s *session) logBlindness(ctx context.Context, err error) {
	klog.FromContext(ctx).Error(err, "Evacuations are not seen while this lasts; if a right is missing, see kubernetes/evacuation",
		"server", s.clients.Server, "namespace", s.clients.Namespace)
}

// matters says whether anything has changed that evacuation reads: instances tell of their guests all the time.
func matters(before, now any) bool {
	was, ok := before.(*kubevirtv1.VirtualMachineInstance)
	is, also := now.(*kubevirtv1.VirtualMachineInstance)

	return !ok || !also || !equality.Semantic.DeepEqual(was.Status, is.Status) || !is.DeletionTimestamp.Equal(was.DeletionTimestamp)
}

// withoutBallast keeps of an instance, or a migration, what evacuation reads: fields of a fixed size, and lists. A map takes many times the
// memory of its JSON, by which what is kept is bounded.
func withoutBallast(object any) (any, error) {
	switch object := object.(type) {
	case *kubevirtv1.VirtualMachineInstance:
		return lightInstance(object), nil
	case *kubevirtv1.VirtualMachineInstanceMigration:
		return lightMigration(object), nil
	default:
		return nil, fmt.Errorf("unexpected type %T", object)
	}
}

func lightInstance(instance *kubevirtv1.VirtualMachineInstance) *kubevirtv1.VirtualMachineInstance {
	light := &kubevirtv1.VirtualMachineInstance{
		ObjectMeta: lightMeta(&instance.ObjectMeta),
		Spec:       kubevirtv1.VirtualMachineInstanceSpec{EvictionStrategy: instance.Spec.EvictionStrategy},
		Status: kubevirtv1.VirtualMachineInstanceStatus{
			Phase: instance.Status.Phase, NodeName: instance.Status.NodeName, EvacuationNodeName: instance.Status.EvacuationNodeName,
			Conditions: instance.Status.Conditions,
		},
	}

	if state := instance.Status.MigrationState; state != nil {
		light.Status.MigrationState = &kubevirtv1.VirtualMachineInstanceMigrationState{
			StartTimestamp: state.StartTimestamp, EndTimestamp: state.EndTimestamp, SourceNode: state.SourceNode,
		}
	}

	return light
}

func lightMigration(migration *kubevirtv1.VirtualMachineInstanceMigration) *kubevirtv1.VirtualMachineInstanceMigration {
	return &kubevirtv1.VirtualMachineInstanceMigration{
		ObjectMeta: lightMeta(&migration.ObjectMeta),
		Status: kubevirtv1.VirtualMachineInstanceMigrationStatus{
			Phase: migration.Status.Phase, PhaseTransitionTimestamps: migration.Status.PhaseTransitionTimestamps,
		},
	}
}

func lightMeta(meta *metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: meta.Name, Namespace: meta.Namespace, UID: meta.UID, ResourceVersion: meta.ResourceVersion,
		CreationTimestamp: meta.CreationTimestamp, DeletionTimestamp: meta.DeletionTimestamp,
	}
}

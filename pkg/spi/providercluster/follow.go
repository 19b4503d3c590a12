package providercluster

import (
	"context"

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

// withoutBallast keeps of an instance what evacuation reads.
func withoutBallast(object any) (any, error) {
	instance, ok := object.(*kubevirtv1.VirtualMachineInstance)
	if !ok {
		return object, nil
	}

	return &kubevirtv1.VirtualMachineInstance{
		ObjectMeta: metav1.ObjectMeta{
			Name: instance.Name, Namespace: instance.Namespace, UID: instance.UID, ResourceVersion: instance.ResourceVersion,
			DeletionTimestamp: instance.DeletionTimestamp,
		},
		Spec: kubevirtv1.VirtualMachineInstanceSpec{EvictionStrategy: instance.Spec.EvictionStrategy},
		Status: kubevirtv1.VirtualMachineInstanceStatus{
			Phase: instance.Status.Phase, NodeName: instance.Status.NodeName, EvacuationNodeName: instance.Status.EvacuationNodeName,
			Conditions: instance.Status.Conditions, MigrationState: instance.Status.MigrationState,
		},
	}, nil
}

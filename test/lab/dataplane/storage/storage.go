// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package storage simulates a CSI driver: its provisioner, resizer and deleter.
//
// Package dataplane runs it for the provider cluster. It must not depend on who uses the volumes.
package storage

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/behaviour"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/cluster"
)

// Provisioner is the StorageClass.provisioner (and CSIDriver name) of the simulated driver, which
// supports both volume binding modes. It clones between zones, like a replicated backend: a volume
// of an Immediate class has no topology unless the class has allowedTopologies; a volume of a
// WaitForFirstConsumer class is bound to the zone of its first node.
const Provisioner = "csi.lab.local"

// ZonalParameter is a parameter of a StorageClass. With the value "true" its volumes behave like a
// cloud's zonal disks: a clone into another zone than its source's always fails.
const ZonalParameter = "sim.lab/zonal"

const (
	provisionerAnnotation   = "volume.kubernetes.io/storage-provisioner"
	selectedNodeAnnotation  = "volume.kubernetes.io/selected-node"
	provisionedByAnnotation = "pv.kubernetes.io/provisioned-by"
	claimKind               = "PersistentVolumeClaim"
	snapshotKind            = "VolumeSnapshot" // has no content
)

// Driver simulates a CSI driver's provisioner and resizer (claims) and deleter (volumes).
type Driver struct {
	Provider  *cluster.Provider
	Behaviour behaviour.Reader
	Now       func() time.Time
	Log       *slog.Logger
}

// ReconcileClaim provisions the volume of a waiting claim and resizes the volume of a bound one.
func (d *Driver) ReconcileClaim(ctx context.Context, key string) (time.Duration, error) {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return 0, fmt.Errorf("split key %q: %w", key, err)
	}
	claim, err := d.Provider.Claims.PersistentVolumeClaims(namespace).Get(name)
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read PersistentVolumeClaim %s: %w", key, err)
	}
	class := d.classOf(claim)
	switch {
	case class == nil || claim.DeletionTimestamp != nil:
		return 0, nil
	case claim.Spec.VolumeName != "":
		return 0, d.resize(ctx, claim, class)
	case isWaiting(claim, class):
		return d.provision(ctx, claim, class)
	default:
		return 0, nil
	}
}

// classOf returns the claim's StorageClass if it uses the simulated driver, else nil.
func (d *Driver) classOf(claim *corev1.PersistentVolumeClaim) *storagev1.StorageClass {
	if claim.Spec.StorageClassName == nil {
		return nil
	}
	class, err := d.Provider.Classes.Get(*claim.Spec.StorageClassName)
	if err != nil || class.Provisioner != Provisioner {
		return nil
	}
	return class
}

// isWaiting reports whether the binder has handed a claim to the provisioner, and no
// volume populator fills it.
func isWaiting(claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass) bool {
	if claim.Annotations[provisionerAnnotation] != Provisioner {
		return false
	}
	if source := claim.Spec.DataSourceRef; source != nil && source.Kind != claimKind && source.Kind != snapshotKind {
		return false
	}
	return !waitsForConsumer(class) || claim.Annotations[selectedNodeAnnotation] != ""
}

// waitsForConsumer reports whether a class has binding mode WaitForFirstConsumer.
func waitsForConsumer(class *storagev1.StorageClass) bool {
	return class.VolumeBindingMode != nil && *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
}

// provision creates the claim's volume after the latency.
func (d *Driver) provision(
	ctx context.Context, claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass,
) (time.Duration, error) {
	latency := d.Behaviour.Latency(claim.Namespace, behaviour.ProvisionLatencyAnnotation)
	if source := cloneSource(claim); source != "" {
		latency = d.Behaviour.Latency(claim.Namespace, behaviour.CloneLatencyAnnotation)
		original, err := d.Provider.Claims.PersistentVolumeClaims(claim.Namespace).Get(source)
		if err != nil || original.Status.Phase != corev1.ClaimBound {
			return behaviour.PollInterval, nil //nolint:nilerr // Like the real provisioner, retry until the source exists.
		}
		if refused := d.zoneConflict(claim, class, original); refused != "" {
			return behaviour.PollInterval, d.refuse(ctx, claim, class, refused)
		}
	}
	if left := behaviour.Remaining(d.Now(), claim.CreationTimestamp.Time, latency); left > 0 {
		return left, nil
	}
	volume := renderVolume(claim, class, d.accessibleFrom(claim, class))
	_, err := d.Provider.Client.CoreV1().PersistentVolumes().Create(ctx, volume, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("provision PersistentVolumeClaim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	d.Log.Info("provisioned", "claim", claim.Namespace+"/"+claim.Name, "volume", volume.Name)
	return 0, nil
}

// zoneConflict returns why a clone cannot be created in the claim's zone, in the words of a cloud's
// driver, or "" if it can.
func (d *Driver) zoneConflict(
	claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass, original *corev1.PersistentVolumeClaim,
) string {
	volume, err := d.Provider.Volumes.Get(original.Spec.VolumeName)
	if err != nil || class.Parameters[ZonalParameter] != "true" {
		return ""
	}
	from := zoneOf(volume.Spec.NodeAffinity)
	to := zoneOf(d.accessibleFrom(claim, class))
	if from == "" || to == "" || from == to {
		return ""
	}
	return fmt.Sprintf("CreateVolume disk zone %s does not match source volume zone %s", to, from)
}

// zoneOf returns the zone that a volume is bound to, or "".
func zoneOf(affinity *corev1.VolumeNodeAffinity) string {
	if affinity == nil || affinity.Required == nil {
		return ""
	}
	for _, term := range affinity.Required.NodeSelectorTerms {
		for _, expression := range term.MatchExpressions {
			if expression.Key == corev1.LabelTopologyZone && len(expression.Values) == 1 {
				return expression.Values[0]
			}
		}
	}
	return ""
}

// refuse records a provisioning failure as the external provisioner does.
func (d *Driver) refuse(
	ctx context.Context, claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass, cause string,
) error {
	return cluster.RecordWarning(ctx, d.Provider.Client, d.Now(), &corev1.Event{
		InvolvedObject: corev1.ObjectReference{
			APIVersion: "v1",
			Kind:       claimKind,
			Namespace:  claim.Namespace,
			Name:       claim.Name,
			UID:        claim.UID,
		},
		Reason: "ProvisioningFailed",
		Message: fmt.Sprintf("failed to provision volume with StorageClass %q: rpc error: code = InvalidArgument desc = %s",
			class.Name, cause),
		Source: corev1.EventSource{Component: Provisioner},
	})
}

// cloneSource returns the name of the claim in the same namespace from which
// a claim is cloned, or "".
func cloneSource(claim *corev1.PersistentVolumeClaim) string {
	if source := claim.Spec.DataSource; source != nil && source.Kind == claimKind {
		return source.Name
	}
	return ""
}

// accessibleFrom returns the topology of a claim's volume; nil means all nodes.
func (d *Driver) accessibleFrom(
	claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass,
) *corev1.VolumeNodeAffinity {
	if waitsForConsumer(class) {
		node, err := d.Provider.Nodes.Get(claim.Annotations[selectedNodeAnnotation])
		if err != nil || node.Labels[corev1.LabelTopologyZone] == "" {
			return nil
		}
		return nodeAffinity(corev1.LabelTopologyZone, node.Labels[corev1.LabelTopologyZone])
	}
	for _, term := range class.AllowedTopologies {
		for _, expression := range term.MatchLabelExpressions {
			return nodeAffinity(expression.Key, expression.Values...)
		}
	}
	return nil
}

// nodeAffinity returns a volume's affinity to nodes with one of the values of a label.
func nodeAffinity(label string, values ...string) *corev1.VolumeNodeAffinity {
	return &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{
			{Key: label, Operator: corev1.NodeSelectorOpIn, Values: values},
		},
	}}}}
}

// renderVolume returns the PersistentVolume of a claim; the real binder binds the two.
func renderVolume(
	claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass, affinity *corev1.VolumeNodeAffinity,
) *corev1.PersistentVolume {
	reclaim := corev1.PersistentVolumeReclaimDelete
	if class.ReclaimPolicy != nil {
		reclaim = *class.ReclaimPolicy
	}
	name := "pvc-" + string(claim.UID)
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name:        name,
			Annotations: map[string]string{provisionedByAnnotation: Provisioner},
		},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:                      claim.Spec.Resources.Requests.DeepCopy(),
			AccessModes:                   claim.Spec.AccessModes,
			VolumeMode:                    claim.Spec.VolumeMode,
			StorageClassName:              class.Name,
			MountOptions:                  class.MountOptions,
			PersistentVolumeReclaimPolicy: reclaim,
			NodeAffinity:                  affinity,
			ClaimRef: &corev1.ObjectReference{
				APIVersion: "v1",
				Kind:       claimKind,
				Namespace:  claim.Namespace,
				Name:       claim.Name,
				UID:        claim.UID,
			},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: Provisioner, VolumeHandle: name},
			},
		},
	}
}

// resize expands a bound claim's volume, and then the claim's capacity, to the requested size.
func (d *Driver) resize(
	ctx context.Context, claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass,
) error {
	requested := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	if claim.Status.Phase != corev1.ClaimBound || !ptr.Deref(class.AllowVolumeExpansion, false) ||
		requested.Cmp(claim.Status.Capacity[corev1.ResourceStorage]) <= 0 {
		return nil
	}
	volume, err := d.Provider.Volumes.Get(claim.Spec.VolumeName)
	if err != nil {
		return fmt.Errorf("read PersistentVolume %s: %w", claim.Spec.VolumeName, err)
	}
	core := d.Provider.Client.CoreV1()
	if requested.Cmp(volume.Spec.Capacity[corev1.ResourceStorage]) > 0 {
		grown := volume.DeepCopy()
		grown.Spec.Capacity[corev1.ResourceStorage] = requested
		if _, err := core.PersistentVolumes().Update(ctx, grown, metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("resize PersistentVolume %s: %w", volume.Name, err)
		}
	}
	resized := claim.DeepCopy()
	resized.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: requested}
	claims := core.PersistentVolumeClaims(claim.Namespace)
	if _, err := claims.UpdateStatus(ctx, resized, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("resize PersistentVolumeClaim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	return nil
}

// ReconcileVolume deletes a released volume.
func (d *Driver) ReconcileVolume(ctx context.Context, name string) (time.Duration, error) {
	volume, err := d.Provider.Volumes.Get(name)
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read PersistentVolume %s: %w", name, err)
	}
	if !isReleased(volume) {
		return 0, nil
	}
	options := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &volume.ResourceVersion}}
	err = d.Provider.Client.CoreV1().PersistentVolumes().Delete(ctx, name, options)
	if err != nil && !apierrors.IsNotFound(err) {
		return 0, fmt.Errorf("delete PersistentVolume %s: %w", name, err)
	}
	return 0, nil
}

// isReleased reports whether a volume of the simulated driver has been released by its claim.
func isReleased(volume *corev1.PersistentVolume) bool {
	return volume.Status.Phase == corev1.VolumeReleased &&
		volume.DeletionTimestamp == nil &&
		volume.Annotations[provisionedByAnnotation] == Provisioner &&
		volume.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete
}

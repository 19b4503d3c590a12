// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package volumes is the storage driver of real nodes: its volumes are folders that all nodes mount.
//
// The environment runs it for the class controlplane.StorageShared. It must not depend on who uses the volumes.
package volumes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
)

const (
	provisionerAnnotation   = "volume.kubernetes.io/storage-provisioner"
	provisionedByAnnotation = "pv.kubernetes.io/provisioned-by"
	pollEvery               = 500 * time.Millisecond
)

// Driver makes and deletes the volumes of a provider cluster.
type Driver struct {
	Client      kubernetes.Interface
	Provisioner string // of the StorageClass
	Folder      string // of the volumes on this machine
	NodeFolder  string // the same folder on the nodes
	Zone        string // of the nodes
	Log         *slog.Logger
}

// Run makes and deletes volumes until the context is done. It polls, since a lab has a handful of claims.
func (d *Driver) Run(ctx context.Context) {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		if err := d.reconcile(ctx); err != nil && ctx.Err() == nil {
			d.Log.Error("failed to reconcile the volumes", "error", err)
		}
	}, pollEvery)
}

func (d *Driver) reconcile(ctx context.Context) error {
	claims, err := d.Client.CoreV1().PersistentVolumeClaims(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list claims: %w", err)
	}
	volumes, err := d.Client.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list volumes: %w", err)
	}
	var failed error
	for i := range claims.Items {
		if d.isWaiting(&claims.Items[i]) {
			failed = errors.Join(failed, d.provision(ctx, &claims.Items[i]))
		}
	}
	for i := range volumes.Items {
		if d.isReleased(&volumes.Items[i]) {
			failed = errors.Join(failed, d.delete(ctx, &volumes.Items[i]))
		}
	}
	return failed
}

// isWaiting reports whether the binder has handed a claim to this driver, and no volume populator fills it.
func (d *Driver) isWaiting(claim *corev1.PersistentVolumeClaim) bool {
	return claim.Annotations[provisionerAnnotation] == d.Provisioner && claim.Spec.VolumeName == "" &&
		claim.DeletionTimestamp == nil && claim.Spec.DataSourceRef == nil
}

func (d *Driver) isReleased(volume *corev1.PersistentVolume) bool {
	return volume.Annotations[provisionedByAnnotation] == d.Provisioner &&
		volume.Status.Phase == corev1.VolumeReleased && volume.DeletionTimestamp == nil
}

// provision makes the folder and the PersistentVolume of a claim.
func (d *Driver) provision(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	volume := d.render(claim)
	folder := filepath.Join(d.Folder, volume.Name)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("create volume: %w", err)
	}
	// CDI and QEMU run as a user of their own, and hostPath has no fsGroup.
	if err := os.Chmod(folder, 0o777); err != nil {
		return fmt.Errorf("open volume to all users: %w", err)
	}
	_, err := d.Client.CoreV1().PersistentVolumes().Create(ctx, volume, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) { // the binder has not bound it yet
		return nil
	}
	if err != nil {
		return fmt.Errorf("provision PersistentVolumeClaim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	d.Log.Info("provisioned", "claim", claim.Namespace+"/"+claim.Name, "volume", volume.Name)
	return nil
}

// delete removes a volume with its content.
func (d *Driver) delete(ctx context.Context, volume *corev1.PersistentVolume) error {
	options := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &volume.ResourceVersion}}
	err := d.Client.CoreV1().PersistentVolumes().Delete(ctx, volume.Name, options)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete PersistentVolume %s: %w", volume.Name, err)
	}
	d.Log.Info("deleted", "volume", volume.Name)
	return os.RemoveAll(filepath.Join(d.Folder, filepath.Base(volume.Spec.HostPath.Path)))
}

func (d *Driver) render(claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolume {
	name := "pvc-" + string(claim.UID)
	directory := corev1.HostPathDirectory
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name:        name,
			Annotations: map[string]string{provisionedByAnnotation: d.Provisioner},
		},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:         claim.Spec.Resources.Requests.DeepCopy(),
			AccessModes:      claim.Spec.AccessModes,
			VolumeMode:       claim.Spec.VolumeMode,
			StorageClassName: *claim.Spec.StorageClassName,
			// This driver deletes it: the control plane's does not know the folder.
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			NodeAffinity:                  nodesOf(d.Zone),
			ClaimRef: &corev1.ObjectReference{
				APIVersion: "v1",
				Kind:       "PersistentVolumeClaim",
				Namespace:  claim.Namespace,
				Name:       claim.Name,
				UID:        claim.UID,
			},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				HostPath: &corev1.HostPathVolumeSource{Path: filepath.Join(d.NodeFolder, name), Type: &directory},
			},
		},
	}
}

// nodesOf returns the affinity of a volume to the nodes of a zone.
func nodesOf(zone string) *corev1.VolumeNodeAffinity {
	return &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{
			Key:      corev1.LabelTopologyZone,
			Operator: corev1.NodeSelectorOpIn,
			Values:   []string{zone},
		}},
	}}}}
}

// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providercluster

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/diagnose"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// objectsOf lists the objects of a machine, in the order of their creation.
func objectsOf(seen *evidence) []spi.Object {
	vm := seen.VirtualMachine
	objects := []spi.Object{objectOf("VirtualMachine", vm, string(vm.Status.PrintableStatus))}

	for i := range seen.Images {
		image := volumeObject(&seen.Images[i])
		image.Role = "source of a clone"

		if name := vm.Labels[v1alpha1.LabelGoldenImage]; name == image.Name && image.Namespace == vm.Namespace {
			image.Role = "golden image"
		}

		objects = append(objects, image)
	}

	for i := range seen.DataVolumes {
		objects = append(objects, volumeObject(&seen.DataVolumes[i]))
	}

	if seen.Instance != nil {
		objects = append(objects, instanceObject(seen.Instance))
	}

	for i := range seen.Migrations {
		migration := objectOf("VirtualMachineInstanceMigration", &seen.Migrations[i], string(seen.Migrations[i].Status.Phase))
		migration.Role = "live migration"
		objects = append(objects, migration)
	}

	for i := range seen.Pods {
		pod := objectOf("Pod", &seen.Pods[i], podState(&seen.Pods[i]))
		if diagnose.IsMigrationTarget(&seen.Pods[i]) {
			pod.Role = "migration target"
		}

		objects = append(objects, pod)
	}

	return objects
}

func objectOf(kind string, from metav1.Object, state string) spi.Object {
	object := spi.Object{
		ObjectName: spi.ObjectName{Kind: kind, Namespace: from.GetNamespace(), Name: from.GetName()},
		State:      state,
		Created:    from.GetCreationTimestamp().Time,
	}

	if deleted := from.GetDeletionTimestamp(); deleted != nil {
		object.Deleted = &deleted.Time
	}

	return object
}

func instanceObject(instance *kubevirtv1.VirtualMachineInstance) spi.Object {
	state := string(instance.Status.Phase)
	if node := nodeOf(instance); node != "" {
		state += " on " + node
	}

	return objectOf("VirtualMachineInstance", instance, state)
}

func volumeObject(dv *cdiv1beta1.DataVolume) spi.Object {
	state := string(dv.Status.Phase)
	if dv.Status.Progress != "" && dv.Status.Phase != cdiv1beta1.Succeeded {
		state += ", progress " + string(dv.Status.Progress)
	}

	if dv.Status.RestartCount > 0 {
		state += fmt.Sprintf(", restarts: %d", dv.Status.RestartCount)
	}

	return objectOf("DataVolume", dv, state)
}

// podState returns the phase of a pod, with its first container that waits and the reason.
func podState(pod *corev1.Pod) string {
	state := string(pod.Status.Phase)
	if pod.Spec.NodeName != "" {
		state += " on " + pod.Spec.NodeName
	}

	for i := range pod.Status.ContainerStatuses {
		if waiting := pod.Status.ContainerStatuses[i].State.Waiting; waiting != nil {
			return fmt.Sprintf("%s, container %s: %s", state, pod.Status.ContainerStatuses[i].Name, waiting.Reason)
		}
	}

	return state
}

package providercluster

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// objectsSeen lists what a machine is made of, in the order in which it comes about.
func objectsSeen(seen *sighting) []spi.Object {
	vm := seen.VirtualMachine
	objects := []spi.Object{objectSeen("VirtualMachine", vm, string(vm.Status.PrintableStatus))}

	for i := range seen.Images {
		image := volumeSeen(&seen.Images[i])
		image.Role = "source of a clone"

		if name := vm.Labels[v1alpha1.LabelGoldenImage]; name == image.Name && image.Namespace == vm.Namespace {
			image.Role = "golden image"
		}

		objects = append(objects, image)
	}

	for i := range seen.DataVolumes {
		objects = append(objects, volumeSeen(&seen.DataVolumes[i]))
	}

	if seen.Instance != nil {
		objects = append(objects, instanceSeen(seen.Instance))
	}

	for i := range seen.Pods {
		objects = append(objects, objectSeen("Pod", &seen.Pods[i], podState(&seen.Pods[i])))
	}

	return objects
}

func objectSeen(kind string, object metav1.Object, state string) spi.Object {
	seen := spi.Object{
		ObjectName: spi.ObjectName{Kind: kind, Namespace: object.GetNamespace(), Name: object.GetName()},
		State:      state, Created: object.GetCreationTimestamp().Time,
	}

	if deleted := object.GetDeletionTimestamp(); deleted != nil {
		seen.Deleted = &deleted.Time
	}

	return seen
}

func instanceSeen(instance *kubevirtv1.VirtualMachineInstance) spi.Object {
	state := string(instance.Status.Phase)
	if node := nodeOf(instance); node != "" {
		state += " on " + node
	}

	return objectSeen("VirtualMachineInstance", instance, state)
}

func volumeSeen(dv *cdiv1beta1.DataVolume) spi.Object {
	state := string(dv.Status.Phase)
	if dv.Status.Progress != "" && dv.Status.Phase != cdiv1beta1.Succeeded {
		state += ", progress " + string(dv.Status.Progress)
	}

	if dv.Status.RestartCount > 0 {
		state += fmt.Sprintf(", restarts: %d", dv.Status.RestartCount)
	}

	return objectSeen("DataVolume", dv, state)
}

// podState names the first container that does not run, and why.
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

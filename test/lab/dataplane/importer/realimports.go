// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package importer

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/behaviour"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/hypervisor"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/kubelet"
)

// Volumes of CDI's importer pods.
const (
	cdiDataVolume    = "cdi-data-vol"
	cdiScratchVolume = "cdi-scratch-vol"
	cdiCertVolume    = "cdi-cert-vol"
)

// importsForReal reports whether an importer pod fills its volume.
func (w *Workers) importsForReal(pod *corev1.Pod) bool {
	namespace, err := w.Behaviour.Namespaces.Get(pod.Namespace)
	return err == nil && w.Volumes != nil && namespace.Annotations[hypervisor.ImportAnnotation] == hypervisor.RealImport &&
		pod.Spec.Containers[0].Name == cdiImporter
}

// realImport runs CDI's importer, and returns its outcome.
func (w *Workers) realImport(pod *corev1.Pod) kubelet.Outcome {
	run, err := w.importerRun(context.Background(), pod) //nolint:forbidigo // outcomes of pods have no context; one short read
	if err != nil {
		return kubelet.Failed(err.Error())
	}
	result, ended := w.Volumes.Import(run)
	if !ended {
		return kubelet.Outcome{After: behaviour.PollInterval}
	}
	return kubelet.Outcome{Exited: true, Code: result.Code, Message: result.Message}
}

// importerRun describes the current run of an importer's container.
func (w *Workers) importerRun(ctx context.Context, pod *corev1.Pod) (hypervisor.ImporterRun, error) {
	container := pod.Spec.Containers[0]
	if len(container.VolumeDevices) > 0 {
		return hypervisor.ImporterRun{}, fmt.Errorf("volumeMode Block: real imports need volumeMode Filesystem")
	}
	run := hypervisor.ImporterRun{ID: string(pod.UID), Env: map[string]string{}}
	for _, status := range pod.Status.ContainerStatuses {
		run.ID = fmt.Sprintf("%s-%d", pod.UID, status.RestartCount)
	}
	for _, variable := range container.Env {
		run.Env[variable.Name] = variable.Value
	}
	run.Volume = w.volumeOf(pod, cdiDataVolume)
	run.Scratch = w.volumeOf(pod, cdiScratchVolume)
	certificates, err := w.certificates(ctx, pod)
	run.CA = certificates
	return run, err
}

// certificates returns the content of the ConfigMap with a source's certificates, if it has one.
func (w *Workers) certificates(ctx context.Context, pod *corev1.Pod) (map[string][]byte, error) {
	for _, volume := range pod.Spec.Volumes {
		if volume.Name != cdiCertVolume || volume.ConfigMap == nil {
			continue
		}
		found, err := w.Provider.Client.CoreV1().ConfigMaps(pod.Namespace).Get(ctx, volume.ConfigMap.Name, metav1.GetOptions{})
		if err != nil {
			return nil, fmt.Errorf("read the certificates of pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
		return bytesOf(found.Data), nil
	}
	return map[string][]byte{}, nil
}

// volumeOf returns the name of the PersistentVolume behind a volume of a pod, or "".
func (w *Workers) volumeOf(pod *corev1.Pod, name string) string {
	for _, volume := range pod.Spec.Volumes {
		if volume.Name != name || volume.PersistentVolumeClaim == nil {
			continue
		}
		claim, err := w.Provider.Claims.PersistentVolumeClaims(pod.Namespace).Get(volume.PersistentVolumeClaim.ClaimName)
		if err == nil {
			return claim.Spec.VolumeName
		}
	}
	return ""
}

func bytesOf(texts map[string]string) map[string][]byte {
	data := make(map[string][]byte, len(texts))
	for key, text := range texts {
		data[key] = []byte(text)
	}
	return data
}

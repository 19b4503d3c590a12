package dataplane

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Volumes of CDI's importer pods.
const (
	cdiDataVolume    = "cdi-data-vol"
	cdiScratchVolume = "cdi-scratch-vol"
	cdiCertVolume    = "cdi-cert-vol"
)

// importsForReal reports whether an importer pod fills its volume.
func (w *providerWorkloads) importsForReal(pod *corev1.Pod) bool {
	namespace, err := w.behaviour.namespaces.Get(pod.Namespace)
	return err == nil && w.volumes != nil && namespace.Annotations[ImportAnnotation] == RealImport &&
		pod.Spec.Containers[0].Name == cdiImporter
}

// realImport runs CDI's importer, and returns its outcome.
func (w *providerWorkloads) realImport(pod *corev1.Pod) outcome {
	run, err := w.importerRun(context.Background(), pod) //nolint:contextcheck,forbidigo // outcomes of pods have no context; two short reads
	if err != nil {
		return failed(err.Error())
	}
	result, ended := w.volumes.Import(run)
	if !ended {
		return outcome{after: realGuestPoll}
	}
	return outcome{exited: true, code: result.Code, message: result.Message}
}

// importerRun describes the current run of an importer's container.
func (w *providerWorkloads) importerRun(ctx context.Context, pod *corev1.Pod) (ImporterRun, error) {
	container := pod.Spec.Containers[0]
	if len(container.VolumeDevices) > 0 {
		return ImporterRun{}, fmt.Errorf("volumeMode Block: real imports need volumeMode Filesystem")
	}
	run := ImporterRun{ID: string(pod.UID), Env: map[string]string{}}
	for _, status := range pod.Status.ContainerStatuses {
		run.ID = fmt.Sprintf("%s-%d", pod.UID, status.RestartCount)
	}
	for _, variable := range container.Env {
		run.Env[variable.Name] = variable.Value
	}
	for _, volume := range pod.Spec.Volumes {
		switch {
		case volume.Name == cdiDataVolume && volume.PersistentVolumeClaim != nil:
			run.Volume = w.persistentVolume(pod.Namespace, volume.PersistentVolumeClaim.ClaimName)
		case volume.Name == cdiScratchVolume && volume.PersistentVolumeClaim != nil:
			run.Scratch = w.persistentVolume(pod.Namespace, volume.PersistentVolumeClaim.ClaimName)
		case volume.Name == cdiCertVolume && volume.ConfigMap != nil:
			found, err := w.provider.client.CoreV1().ConfigMaps(pod.Namespace).Get(ctx, volume.ConfigMap.Name, metav1.GetOptions{})
			if err != nil {
				return ImporterRun{}, fmt.Errorf("read the certificates of pod %s/%s: %w", pod.Namespace, pod.Name, err)
			}
			run.CA = bytesOf(found.Data)
		}
	}
	return run, nil
}

// persistentVolume returns the name of the PersistentVolume of a bound claim, or "".
func (w *providerWorkloads) persistentVolume(namespace, claim string) string {
	found, err := w.provider.claims.PersistentVolumeClaims(namespace).Get(claim)
	if err != nil {
		return ""
	}
	return found.Spec.VolumeName
}

func bytesOf(texts map[string]string) map[string][]byte {
	data := make(map[string][]byte, len(texts))
	for key, text := range texts {
		data[key] = []byte(text)
	}
	return data
}

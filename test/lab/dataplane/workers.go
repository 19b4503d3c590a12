package dataplane

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Labels and names of CDI's pods.
const (
	cdiComponentLabel   = "cdi.kubevirt.io"
	cdiImporter         = "importer"
	cdiCloneSource      = "cdi-clone-source"
	cdiUploadServer     = "cdi-upload-server"
	cdiSourcePodSuffix  = "-source-pod"
	cdiSizeDetection    = "size-detection-volume"
	cdiImporterEndpoint = "IMPORTER_ENDPOINT"
	cloneMessage        = `{"message":"Clone Complete"}`
	importMessage       = `{"scratchSpaceRequired":false,"preallocationApplied":false,"message":"Import Complete"}`
	notFoundMessage     = "Unable to connect to http data source: expected status code 200, got 404. Status: 404 Not Found"
	noManifestMessage   = "Unable to process data: Failed to read registry image: failed to pull image: " +
		"reading manifest: manifest unknown: manifest unknown"
)

// workers are the programs in CDI's pods.
type workers struct {
	provider  *providerCluster
	behaviour behaviour
	volumes   Volumes // runs real imports; may be nil
	now       func() time.Time
}

// isWorker reports whether a pod is one of CDI's.
func isWorker(pod *corev1.Pod) bool {
	return pod.Labels[cdiComponentLabel] != ""
}

// outcome returns the outcome of the running containers of one of CDI's pods.
func (w *workers) outcome(pod *corev1.Pod) outcome {
	switch pod.Labels[cdiComponentLabel] {
	case cdiImporter:
		if w.importsForReal(pod) {
			return w.realImport(pod)
		}
		return w.after(pod, w.behaviour.latency(pod.Namespace, ImportLatencyAnnotation), w.importOutcome(pod))
	case cdiCloneSource:
		return w.after(pod, w.behaviour.latency(pod.Namespace, CloneLatencyAnnotation), succeeded(cloneMessage))
	case cdiUploadServer:
		return w.uploadOutcome(pod)
	default:
		return w.after(pod, podLatency, succeeded(""))
	}
}

func (w *workers) after(pod *corev1.Pod, latency time.Duration, then outcome) outcome {
	return afterLatency(pod, w.now(), latency, then)
}

// uploadOutcome ends the receiving pod of a host-assisted copy after its sender. A pod that waits
// for a user's upload keeps running.
func (w *workers) uploadOutcome(pod *corev1.Pod) outcome {
	claim := metav1.GetControllerOf(pod)
	selector := labels.SelectorFromSet(labels.Set{cdiComponentLabel: cdiCloneSource})
	senders, err := w.provider.pods.List(selector)
	if claim == nil || err != nil {
		return outcome{}
	}
	for _, sender := range senders {
		if sender.Name == string(claim.UID)+cdiSourcePodSuffix && sender.Status.Phase == corev1.PodSucceeded {
			return succeeded(cloneMessage)
		}
	}
	return outcome{after: podLatency}
}

// importOutcome returns the outcome of an importer: the namespace's fault, or else
// according to its source.
func (w *workers) importOutcome(pod *corev1.Pod) outcome {
	switch message := w.behaviour.importFault(pod.Namespace); {
	case message == "":
	case message == ImportOutOfMemory:
		return outcome{exited: true, code: exitOutOfMemory}
	case strings.Contains(message, "checksum mismatch"):
		// The importer exits successfully, so that it is not restarted and CDI gives up
		// the import permanently.
		return succeeded(fmt.Sprintf(`{"message":%q}`, message))
	default:
		return failed(message)
	}
	return importOutcome(pod)
}

// importOutcome returns the outcome of an importer according to its source.
func importOutcome(pod *corev1.Pod) outcome {
	container := pod.Spec.Containers[0]
	if container.Name == cdiSizeDetection {
		return succeeded("1073741824")
	}
	endpoint := environment(container, cdiImporterEndpoint)
	switch {
	case isMissingImage(endpoint):
		return failed(noManifestMessage)
	case strings.Contains(endpoint, "/404"):
		return failed(notFoundMessage)
	default:
		return succeeded(importMessage)
	}
}

// environment returns the value of a container's environment variable.
func environment(container corev1.Container, name string) string {
	for _, variable := range container.Env {
		if variable.Name == name {
			return variable.Value
		}
	}
	return ""
}

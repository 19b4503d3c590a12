// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package importer simulates the programs in CDI's worker pods: imports, host-assisted copies and uploads.
//
// Package dataplane asks it for the outcomes of these pods. It must not depend on virtual machines.
package importer

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/behaviour"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/cluster"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/kubelet"
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

// Workers are the programs in CDI's pods.
type Workers struct {
	Provider  *cluster.Provider
	Behaviour behaviour.Reader
	Now       func() time.Time
}

// IsWorker reports whether a pod is one of CDI's.
func IsWorker(pod *corev1.Pod) bool {
	return pod.Labels[cdiComponentLabel] != ""
}

// Outcome returns the outcome of the running containers of one of CDI's pods.
func (w *Workers) Outcome(pod *corev1.Pod) kubelet.Outcome {
	switch pod.Labels[cdiComponentLabel] {
	case cdiImporter:
		return w.after(pod, w.Behaviour.Latency(pod.Namespace, behaviour.ImportLatencyAnnotation), w.importOutcome(pod))
	case cdiCloneSource:
		return w.after(pod, w.Behaviour.Latency(pod.Namespace, behaviour.CloneLatencyAnnotation), kubelet.Succeeded(cloneMessage))
	case cdiUploadServer:
		return w.uploadOutcome(pod)
	default:
		return w.after(pod, behaviour.PodLatency, kubelet.Succeeded(""))
	}
}

func (w *Workers) after(pod *corev1.Pod, latency time.Duration, then kubelet.Outcome) kubelet.Outcome {
	return kubelet.AfterLatency(pod, w.Now(), latency, then)
}

// uploadOutcome ends the receiving pod of a host-assisted copy after its sender. A pod that waits
// for a user's upload keeps running.
func (w *Workers) uploadOutcome(pod *corev1.Pod) kubelet.Outcome {
	claim := metav1.GetControllerOf(pod)
	selector := labels.SelectorFromSet(labels.Set{cdiComponentLabel: cdiCloneSource})
	senders, err := w.Provider.Pods.List(selector)
	if claim == nil || err != nil {
		return kubelet.Outcome{}
	}
	for _, sender := range senders {
		if sender.Name == string(claim.UID)+cdiSourcePodSuffix && sender.Status.Phase == corev1.PodSucceeded {
			return kubelet.Succeeded(cloneMessage)
		}
	}
	return kubelet.Outcome{After: behaviour.PodLatency}
}

// importOutcome returns the outcome of an importer: the namespace's fault, or else
// according to its source.
func (w *Workers) importOutcome(pod *corev1.Pod) kubelet.Outcome {
	switch message := w.Behaviour.ImportFault(pod.Namespace); {
	case message == "":
	case message == behaviour.ImportOutOfMemory:
		return kubelet.Outcome{Exited: true, Code: kubelet.ExitOutOfMemory}
	case strings.Contains(message, "checksum mismatch"):
		// The importer exits successfully, so that it is not restarted and CDI gives up
		// the import permanently.
		return kubelet.Succeeded(fmt.Sprintf(`{"message":%q}`, message))
	default:
		return kubelet.Failed(message)
	}
	return importOutcome(pod)
}

// importOutcome returns the outcome of an importer according to its source.
func importOutcome(pod *corev1.Pod) kubelet.Outcome {
	container := pod.Spec.Containers[0]
	if container.Name == cdiSizeDetection {
		return kubelet.Succeeded("1073741824")
	}
	endpoint := environment(container, cdiImporterEndpoint)
	switch {
	case behaviour.IsMissingImage(endpoint):
		return kubelet.Failed(noManifestMessage)
	case strings.Contains(endpoint, "/404"):
		return kubelet.Failed(notFoundMessage)
	default:
		return kubelet.Succeeded(importMessage)
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

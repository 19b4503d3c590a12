package dataplane

import (
	"context"
	"fmt"
	"path"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// Labels and names of the pods of CDI and KubeVirt.
const (
	cdiComponentLabel   = "cdi.kubevirt.io"
	cdiImporter         = "importer"
	cdiCloneSource      = "cdi-clone-source"
	cdiUploadServer     = "cdi-upload-server"
	cdiSourcePodSuffix  = "-source-pod"
	cdiSizeDetection    = "size-detection-volume"
	cdiImporterEndpoint = "IMPORTER_ENDPOINT"
	launcherLabelValue  = "virt-launcher"
	cloneMessage        = `{"message":"Clone Complete"}`
	importMessage       = `{"scratchSpaceRequired":false,"preallocationApplied":false,"message":"Import Complete"}`
	notFoundMessage     = "Unable to connect to http data source: expected status code 200, got 404. Status: 404 Not Found"
	noManifestMessage   = "Unable to process data: Failed to read registry image: failed to pull image: " +
		"reading manifest: manifest unknown: manifest unknown"
)

// providerWorkloads are the pods of the provider cluster: launchers, CDI's
// workers, jobs and plain pods.
type providerWorkloads struct {
	provider  *providerCluster
	behaviour behaviour
	addresses *addressPool
	loopback  *addressPool // CDI's pods: cdi-controller dials them, and the connection must be refused at once
	volumes   Volumes      // runs real imports; may be nil
	now       func() time.Time
}

func (w *providerWorkloads) startable(ctx context.Context, pod *corev1.Pod) (string, string, error) {
	missing, err := w.missingVolume(ctx, pod)
	if err != nil || missing != "" {
		return reasonContainerCreating, missing, err
	}
	missing, err = w.missingNetwork(ctx, pod)
	if err != nil || missing != "" {
		return reasonNoSandbox, missing, err
	}
	image := unpullableImage(pod)
	if image == "" {
		missing, err = w.missingVariable(ctx, pod)
		if missing == "" {
			return "", "", err
		}
		return reasonConfigError, missing, err
	}
	since := pod.CreationTimestamp.Time
	if pod.Status.StartTime != nil {
		since = pod.Status.StartTime.Time
	}
	if (w.now().Sub(since)/imagePullBackOff)%2 == 1 {
		return reasonImagePullBackOff, fmt.Sprintf("Back-off pulling image %q", image), nil
	}
	message := fmt.Sprintf("failed to pull and unpack image %q: failed to resolve reference %q: not found", image, image)
	return reasonErrImagePull, message, nil
}

// missingVolume describes the first volume whose object is missing or whose claim
// is unbound, or returns "".
func (w *providerWorkloads) missingVolume(ctx context.Context, pod *corev1.Pod) (string, error) {
	core := w.provider.client.CoreV1()
	for _, volume := range pod.Spec.Volumes {
		var err error
		switch {
		case volume.Secret != nil && !isTrue(volume.Secret.Optional):
			_, err = core.Secrets(pod.Namespace).Get(ctx, volume.Secret.SecretName, metav1.GetOptions{})
		case volume.ConfigMap != nil && !isTrue(volume.ConfigMap.Optional):
			_, err = core.ConfigMaps(pod.Namespace).Get(ctx, volume.ConfigMap.Name, metav1.GetOptions{})
		case volume.PersistentVolumeClaim != nil:
			name := volume.PersistentVolumeClaim.ClaimName
			claim, claimErr := w.provider.claims.PersistentVolumeClaims(pod.Namespace).Get(name)
			if claimErr == nil && claim.Status.Phase != corev1.ClaimBound {
				return fmt.Sprintf("persistentvolumeclaim %q is not bound", name), nil
			}
			err = claimErr
		}
		if apierrors.IsNotFound(err) {
			return err.Error(), nil
		}
		if err != nil {
			return "", fmt.Errorf("volume %s of pod %s/%s: %w", volume.Name, pod.Namespace, pod.Name, err)
		}
	}
	return "", nil
}

// missingVariable describes the first environment variable whose object is missing, or returns "".
func (w *providerWorkloads) missingVariable(ctx context.Context, pod *corev1.Pod) (string, error) {
	core := w.provider.client.CoreV1()
	for _, container := range pod.Spec.Containers {
		for _, variable := range container.Env {
			var err error
			switch from := variable.ValueFrom; {
			case from == nil:
			case from.SecretKeyRef != nil && !isTrue(from.SecretKeyRef.Optional):
				_, err = core.Secrets(pod.Namespace).Get(ctx, from.SecretKeyRef.Name, metav1.GetOptions{})
			case from.ConfigMapKeyRef != nil && !isTrue(from.ConfigMapKeyRef.Optional):
				_, err = core.ConfigMaps(pod.Namespace).Get(ctx, from.ConfigMapKeyRef.Name, metav1.GetOptions{})
			}
			if apierrors.IsNotFound(err) {
				return strings.Replace(strings.Replace(err.Error(), "secrets ", "secret ", 1), "configmaps ", "configmap ", 1), nil
			}
			if err != nil {
				return "", fmt.Errorf("variable %s of pod %s/%s: %w", variable.Name, pod.Namespace, pod.Name, err)
			}
		}
	}
	return "", nil
}

func (w *providerWorkloads) outcome(pod *corev1.Pod) outcome {
	switch {
	case isLauncher(pod):
		return w.launcherOutcome(pod)
	case pod.Labels[cdiComponentLabel] == cdiImporter && w.importsForReal(pod):
		return w.realImport(pod)
	case pod.Labels[cdiComponentLabel] == cdiImporter:
		return w.after(pod, w.behaviour.latency(pod.Namespace, ImportLatencyAnnotation), w.importOutcome(pod))
	case pod.Labels[cdiComponentLabel] == cdiCloneSource:
		return w.after(pod, w.behaviour.latency(pod.Namespace, CloneLatencyAnnotation), succeeded(cloneMessage))
	case pod.Labels[cdiComponentLabel] == cdiUploadServer:
		return w.uploadOutcome(pod)
	case isJob(pod):
		return w.after(pod, podLatency, succeeded(""))
	default:
		return outcome{}
	}
}

// after delays an outcome until the containers have run for the given latency.
func (w *providerWorkloads) after(pod *corev1.Pod, latency time.Duration, then outcome) outcome {
	since := w.now()
	if running := containerState(pod).Running; running != nil {
		since = running.StartedAt.Time
	}
	if left := remaining(w.now(), since, latency); left > 0 {
		return outcome{after: left}
	}
	return then
}

// launcherOutcome ends a launcher with its VirtualMachineInstance, or when a
// migration leaves it without one.
func (w *providerWorkloads) launcherOutcome(pod *corev1.Pod) outcome {
	instance := w.instanceOf(pod)
	switch {
	case instance == nil: // not in the cache yet, or gone, in which case the garbage collector deletes the pod
		return outcome{}
	case instance.Status.Phase == kubevirtv1.Succeeded:
		return succeeded("")
	case instance.Status.Phase == kubevirtv1.Failed:
		return failed("")
	case isLeft(pod, instance):
		return succeeded("")
	default:
		return outcome{}
	}
}

// uploadOutcome ends the receiving pod of a host-assisted copy after its sender. A pod that waits
// for a user's upload keeps running.
func (w *providerWorkloads) uploadOutcome(pod *corev1.Pod) outcome {
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

func (w *providerWorkloads) stoppable(pod *corev1.Pod) time.Duration {
	if !isLauncher(pod) {
		return 0
	}
	instance := w.instanceOf(pod)
	if instance == nil || instance.IsFinal() || (instance.IsRunning() && instance.Status.NodeName != pod.Spec.NodeName) {
		return 0 // no guest, or a guest on another node
	}
	return pod.DeletionTimestamp.Sub(w.now())
}

func (w *providerWorkloads) address(pod *corev1.Pod) string {
	if pod.Labels[cdiComponentLabel] != "" {
		return w.loopback.next()
	}
	return w.addresses.next()
}

// instanceOf returns the VirtualMachineInstance of a launcher pod, or nil if it is gone.
func (w *providerWorkloads) instanceOf(pod *corev1.Pod) *kubevirtv1.VirtualMachineInstance {
	owner := metav1.GetControllerOf(pod)
	if owner == nil {
		return nil
	}
	instance, err := w.provider.instance(pod.Namespace + "/" + owner.Name)
	if err != nil || instance.UID != owner.UID {
		return nil
	}
	return instance
}

// succeeded is the outcome of containers that completed successfully.
func succeeded(message string) outcome {
	return outcome{exited: true, message: message}
}

// failed is the outcome of containers that failed.
func failed(message string) outcome {
	return outcome{exited: true, code: 1, message: message}
}

// importOutcome returns the outcome of an importer: the namespace's fault, or else
// according to its source.
func (w *providerWorkloads) importOutcome(pod *corev1.Pod) outcome {
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

// isLauncher reports whether a pod runs a VirtualMachineInstance, unlike temporary pods that only
// trigger the binding of a volume.
func isLauncher(pod *corev1.Pod) bool {
	_, temporary := pod.Annotations[kubevirtv1.EphemeralProvisioningObject]
	return pod.Labels[kubevirtv1.AppLabel] == launcherLabelValue && !temporary
}

// isJob reports whether a pod's containers exit by themselves.
func isJob(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOf(pod)
	_, temporary := pod.Annotations[kubevirtv1.EphemeralProvisioningObject]
	return temporary || pod.Labels[cdiComponentLabel] != "" || (owner != nil && owner.Kind == "Job")
}

// unpullableImage returns an image of the pod that cannot be pulled, or "".
func unpullableImage(pod *corev1.Pod) string {
	for _, container := range pod.Spec.Containers {
		if isMissingImage(container.Image) || hasFault(pod, FaultImagePull) {
			return container.Image
		}
	}
	return ""
}

// isMissingImage reports whether an image reference, with or without a
// scheme, is named ".../missing".
func isMissingImage(reference string) bool {
	base := path.Base(reference)
	name, _, _ := strings.Cut(base, "@")
	name, _, _ = strings.Cut(name, ":")
	return strings.Contains(reference, "/") && name == "missing"
}

// isTrue returns the value of an optional flag; nil means false.
func isTrue(flag *bool) bool {
	return flag != nil && *flag
}

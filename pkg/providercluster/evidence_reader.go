// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providercluster

import (
	"cmp"
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/diagnose"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/render"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// reader reads evidence. Objects that cannot be read are omitted: without them, the diagnosis is
// merely less precise.
type reader struct {
	clients *providerapi.Clients
	// unread lists the evidence that could not be read, and why.
	unread []string
}

// readRelated reads the related evidence with at most five requests. One more is necessary after an error
// of the scheduler, since KubeVirt keeps its first condition, and only the pod shows whether the scheduler
// has rejected it since; for an importer that does not start; and for one that fails.
func (r *reader) readRelated(ctx context.Context, in *spi.ObserveMachineInput, seen *evidence) evidence {
	ctx, cancel := context.WithTimeout(ctx, evidenceTimeout)
	defer cancel()

	var related evidence

	if isOnNode(seen.Instance) && !diagnose.GuestRuns(seen.Instance) {
		related.Pods = r.podsOf(ctx, seen.Instance)
		related.Events = r.eventsOf(ctx, fields.Set{"involvedObject.uid": string(seen.Instance.UID), "type": corev1.EventTypeWarning})

		return related
	}

	pod := stepOf(seen.Instance)
	if pod != "" || nodeOf(seen.Instance) != "" || hasSchedulerError(seen.Instance) {
		related.Pods = r.podsOf(ctx, seen.Instance)
	}

	if pod != "" {
		related.Events = r.eventsOf(ctx, fields.Set{"involvedObject.uid": string(pod), "type": corev1.EventTypeWarning})

		return related
	}

	related.DataVolumes = r.dataVolumesOf(ctx, in)

	dv := unfinished(related.DataVolumes, goldenImageOf(seen.VirtualMachine))
	if dv == nil {
		return related
	}

	related.Images, related.missing = r.imageOf(ctx, dv)

	// As long as an image is not complete, its events explain the delay.
	if image := unfinished(related.Images, ""); image != nil && image.Namespace == dv.Namespace {
		dv = image
	}

	r.readVolume(ctx, dv, &related.Evidence)

	return related
}

// unfinished returns the DataVolume to be diagnosed, or nil if all are complete: the clone of the
// golden image, since only the driver repairs that image; else a DataVolume that CDI is working on;
// else one that waits for the machine's pod. golden is the image's path; empty if there is none.
func unfinished(volumes []cdiv1beta1.DataVolume, golden string) *cdiv1beta1.DataVolume {
	var working, waiting *cdiv1beta1.DataVolume

	for i := range volumes {
		switch dv := &volumes[i]; {
		case dv.Status.Phase == cdiv1beta1.Succeeded:
		case golden != "" && diagnose.SourceOf(dv) == golden:
			return dv
		case dv.Status.Phase == cdiv1beta1.WaitForFirstConsumer || dv.Status.Phase == cdiv1beta1.PendingPopulation:
			waiting = cmp.Or(waiting, dv)
		default:
			working = cmp.Or(working, dv)
		}
	}

	return cmp.Or(working, waiting)
}

// goldenImageOf returns the golden image of the machine in the format of diagnose.SourceOf; empty
// if there is none.
func goldenImageOf(vm *kubevirtv1.VirtualMachine) string {
	image := vm.Labels[v1alpha1.LabelGoldenImage]
	if image == "" {
		return ""
	}

	return vm.Namespace + "/" + image
}

// nodeOf returns the provider node of an instance or of one of its pods; empty if there is none
// yet.
func nodeOf(instance *kubevirtv1.VirtualMachineInstance) string {
	if instance == nil {
		return ""
	}

	if instance.Status.NodeName != "" {
		return instance.Status.NodeName
	}

	for _, node := range instance.Status.ActivePods {
		if node != "" {
			return node
		}
	}

	return ""
}

// isOnNode reports whether an instance has reached a provider node. virt-handler then starts its guest.
func isOnNode(instance *kubevirtv1.VirtualMachineInstance) bool {
	return instance != nil && instance.Status.NodeName != ""
}

// podsOf returns the existing pods among the active pods of an instance, except those that live
// migrations have left: KubeVirt keeps them until the instance ends. Before the launcher pod, there may
// be a pod that only triggers the binding of volumes.
func (r *reader) podsOf(ctx context.Context, instance *kubevirtv1.VirtualMachineInstance) []corev1.Pod {
	pods, err := providerapi.Some[corev1.Pod](ctx, r.clients.Kubernetes.CoreV1().Pods(r.clients.Namespace), providerapi.List{
		Labels:  labels.Set{kubevirtv1.CreatedByLabel: string(instance.UID)}.String(),
		MaxKept: maxEvidenceMemory,
	}, maxEvidence)
	if err != nil {
		r.addUnread(spi.During("list pods", providerapi.Explain(err)))

		return nil
	}

	return slices.DeleteFunc(pods, func(p corev1.Pod) bool {
		_, known := instance.Status.ActivePods[p.UID]

		return !known || (p.Status.Phase == corev1.PodSucceeded && !instance.IsFinal())
	})
}

func (r *reader) dataVolumesOf(ctx context.Context, in *spi.ObserveMachineInput) []cdiv1beta1.DataVolume {
	selector, labelled := render.MachineSelector(in.Identity, in.Name)
	if !labelled {
		return nil
	}

	volumes, err := providerapi.Some[cdiv1beta1.DataVolume](ctx, r.clients.DataVolumes(r.clients.Namespace, "DataVolume"), providerapi.List{
		Labels:  selector,
		MaxKept: maxEvidenceMemory,
	}, maxEvidence)
	if err != nil {
		r.addUnread(spi.During("list DataVolumes", providerapi.Explain(err)))
	}

	return volumes
}

// imageOf returns the DataVolume of the claim from which a DataVolume is cloned. If there is none,
// since the claim does not exist or was created without a DataVolume, it returns the name of a
// claim in the machine's namespace as missing.
func (r *reader) imageOf(ctx context.Context, dv *cdiv1beta1.DataVolume) (images []cdiv1beta1.DataVolume, missing string) {
	namespace, name, cloned := strings.Cut(diagnose.SourceOf(dv), "/")
	if !cloned {
		return nil, ""
	}

	image, err := r.clients.WithoutRetry().DataVolumes(namespace, "DataVolume").Get(ctx, name)

	switch {
	case err != nil:
		r.addUnread(err)

		return nil, ""
	case image != nil:
		return []cdiv1beta1.DataVolume{*image}, ""
	case namespace == r.clients.Namespace:
		return nil, name
	default:
		r.addUnread(spi.Errorf(spi.ErrPrecondition, "get DataVolume %s/%s: not found", namespace, name))

		return nil, ""
	}
}

func (r *reader) eventsOf(ctx context.Context, selector fields.Set) []corev1.Event {
	events, err := providerapi.Some[corev1.Event](ctx, r.clients.Kubernetes.CoreV1().Events(r.clients.Namespace), providerapi.List{
		Fields:  selector.String(),
		MaxKept: maxEvidenceMemory,
	}, maxEvidence)
	if err != nil {
		r.addUnread(spi.During("list events", providerapi.Explain(err)))
	}

	return events
}

// addUnread records that evidence could not be read.
func (r *reader) addUnread(err error) {
	if text := spi.AsError(err).Message; !slices.Contains(r.unread, text) {
		r.unread = append(r.unread, text)
	}
}

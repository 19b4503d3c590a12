package providercluster

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi/diagnose"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi/render"
)

const (
	// evidenceTimeout bounds all that is read of one machine at a time: a worker waits for it that others may need. Nothing of it is
	// repeated: without it the diagnosis is less exact, and that is all.
	evidenceTimeout = 5 * time.Second
	// maxEvidence bounds each list that is read of one machine, in objects.
	maxEvidence = 500
)

// investigate reads what the VirtualMachine and its instance do not tell: the DataVolumes, what they are cloned from, and events. It
// does so only for a machine that takes long, and not often, since a machine may wait for hours. In between, what was found
// last is used again. What may not be read is left out: a Role of an older release does not grant it.
func (p *Provider) investigate(ctx context.Context, s *session, in *spi.ObserveMachineInput, seen *sighting) {
	slow := p.gracePeriods().Retry
	if p.initialized(seen.Instance) || p.options.Clock.Since(begun(seen)) < slow {
		return
	}

	uid, step := seen.VirtualMachine.UID, stepOf(seen.Instance)
	if seen.fresh = p.files.due(uid, slow); seen.fresh {
		p.files.keep(uid, step, s.evidence(ctx, in, seen))
	}

	found, read := p.files.found(uid, step)
	seen.read, seen.missing = read, found.missing
	seen.DataVolumes, seen.Images, seen.Pods, seen.Events = found.DataVolumes, found.Images, found.Pods, found.Events
}

// finding is what was read apart from the VirtualMachine and its instance.
type finding struct {
	diagnose.Evidence

	// missing is the name of the claim in the machine's namespace that a volume is to be cloned from, if no DataVolume of that name
	// is there.
	missing string
}

// begun returns when the present step of the machine began.
func begun(seen *sighting) time.Time {
	if seen.Instance != nil {
		return seen.Instance.CreationTimestamp.Time
	}

	return seen.VirtualMachine.CreationTimestamp.Time
}

// step is where a machine stands: the UID of the launcher pod, if that is what is to be looked at, or empty as long as the volumes are
// made. What was found in one step says nothing of the next one.
type step string

// stepOf knows that a launcher pod without a node, of which the scheduler says nothing, waits for its volumes. An instance that has
// failed, and is replaced, waits for the end of its pod.
func stepOf(instance *kubevirtv1.VirtualMachineInstance) step {
	if instance == nil || (instance.Status.Phase != kubevirtv1.Scheduling && instance.Status.Phase != kubevirtv1.Failed) {
		return ""
	}

	for uid, node := range instance.Status.ActivePods {
		if node != "" || unscheduled(instance) {
			return step(uid)
		}
	}

	return ""
}

func unscheduled(instance *kubevirtv1.VirtualMachineInstance) bool {
	return slices.ContainsFunc(instance.Status.Conditions, func(c kubevirtv1.VirtualMachineInstanceCondition) bool {
		return string(c.Type) == string(corev1.PodScheduled) && c.Status == corev1.ConditionFalse
	})
}

// evidence makes four requests at most.
func (s *session) evidence(ctx context.Context, in *spi.ObserveMachineInput, seen *sighting) finding {
	ctx, cancel := context.WithTimeout(ctx, evidenceTimeout)
	defer cancel()

	var found finding

	pod := stepOf(seen.Instance)
	if pod != "" || nodeOf(seen.Instance) != "" {
		found.Pods = s.podsOf(ctx, seen.Instance)
	}

	if pod != "" {
		found.Events = s.eventsOf(ctx, fields.Set{"involvedObject.uid": string(pod), "type": corev1.EventTypeWarning})

		return found
	}

	found.DataVolumes = s.dataVolumesOf(ctx, in)

	dv := unfinished(found.DataVolumes, goldenImageOf(seen.VirtualMachine))
	if dv == nil {
		return found
	}

	found.Images, found.missing = s.imageOf(ctx, dv)

	// As long as an image is not complete, it is what is worth a look.
	if image := unfinished(found.Images, ""); image != nil && image.Namespace == dv.Namespace {
		dv = image
	}

	found.Events = s.eventsOfVolume(ctx, dv)

	return found
}

// eventsOfVolume returns those of a DataVolume and its claim, which share their name, and those of the claim that CDI really has
// provisioned and filled. CDI hands on only some of the latter.
func (s *session) eventsOfVolume(ctx context.Context, dv *cdiv1beta1.DataVolume) []corev1.Event {
	events := s.eventsOf(ctx, fields.Set{"involvedObject.name": dv.Name})

	for i := range events {
		if claim := &events[i].InvolvedObject; claim.Kind == "PersistentVolumeClaim" && claim.UID != "" {
			return append(events, s.eventsOf(ctx, fields.Set{"involvedObject.name": helperClaim(dv, claim.UID), "type": corev1.EventTypeWarning})...)
		}
	}

	return events
}

// helperClaim returns the name of the claim that CDI makes in place of a DataVolume's own, to hand its volume over in the end
// (pkg/controller/clone/planner.go, pkg/controller/populators/util.go).
func helperClaim(dv *cdiv1beta1.DataVolume, claim types.UID) string {
	if diagnose.SourceOf(dv) != "" {
		return "tmp-pvc-" + string(claim)
	}

	return "prime-" + string(claim)
}

// unfinished returns the DataVolume that is worth a look, or nil if all are complete: the clone of the golden image, whose path is empty
// if there is none, since nobody else looks after the image; else one that CDI works on; else one that waits for the machine's pod.
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

// goldenImageOf returns the namespace and name of the golden image that the machine is cloned from, as diagnose.SourceOf does; empty if
// there is none.
func goldenImageOf(vm *kubevirtv1.VirtualMachine) string {
	image := vm.Labels[v1alpha1.LabelGoldenImage]
	if image == "" {
		return ""
	}

	return vm.Namespace + "/" + image
}

// nodeOf returns the provider node of an instance or of one of its pods, if there is one yet.
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

// podsOf returns the pods that the instance is known to have, as far as they are there still. Before the launcher pod there may be one
// that only makes volumes bind.
func (s *session) podsOf(ctx context.Context, instance *kubevirtv1.VirtualMachineInstance) []corev1.Pod {
	pods, err := providerapi.Some[corev1.Pod](ctx, s.pods(), providerapi.List{
		Labels: labels.Set{kubevirtv1.CreatedByLabel: string(instance.UID)}.String(),
	}, maxEvidence)
	if err != nil {
		s.leaveOut("list pods", err)

		return nil
	}

	return slices.DeleteFunc(pods, func(p corev1.Pod) bool {
		_, known := instance.Status.ActivePods[p.UID]

		return !known
	})
}

func (s *session) dataVolumesOf(ctx context.Context, in *spi.ObserveMachineInput) []cdiv1beta1.DataVolume {
	selector, labelled := render.MachineSelector(in.Identity, in.Name)
	if !labelled {
		return nil
	}

	volumes, err := providerapi.Some[cdiv1beta1.DataVolume](ctx, s.dataVolumes(), providerapi.List{Labels: selector}, maxEvidence)
	if err != nil {
		s.leaveOut("list DataVolumes", err)
	}

	return volumes
}

// imageOf returns the DataVolume that fills what a DataVolume is cloned from. A claim may have come about in another way: then
// there is none, and its name is returned if it is in the machine's namespace.
func (s *session) imageOf(ctx context.Context, dv *cdiv1beta1.DataVolume) (images []cdiv1beta1.DataVolume, missing string) {
	namespace, name, cloned := strings.Cut(diagnose.SourceOf(dv), "/")
	if !cloned {
		return nil, ""
	}

	image, err := s.dataVolumesIn(namespace).Get(ctx, name, metav1.GetOptions{})

	switch {
	case providerapi.Absent(err) && namespace == s.clients.Namespace:
		return nil, name
	case err != nil:
		s.leaveOut("get DataVolume "+namespace+"/"+name, err)

		return nil, ""
	default:
		return []cdiv1beta1.DataVolume{*image}, ""
	}
}

func (s *session) eventsOf(ctx context.Context, selector fields.Set) []corev1.Event {
	events, err := providerapi.Some[corev1.Event](ctx, s.events(), providerapi.List{Fields: selector.String()}, maxEvidence)
	if err != nil {
		s.leaveOut("list events", err)
	}

	return events
}

// leaveOut takes note of what could not be read.
func (s *session) leaveOut(what string, err error) {
	if text := fmt.Sprintf("%s: %s", what, providerapi.Sanitize(err)); !slices.Contains(s.unread, text) {
		s.unread = append(s.unread, text)
	}
}

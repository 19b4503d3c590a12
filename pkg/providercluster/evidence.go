package providercluster

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/diagnose"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi/pages"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/render"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

const (
	// evidenceTimeout bounds the time to read the evidence of one machine, for which a worker waits.
	// Failed reads are not retried: without them the diagnosis is merely less precise.
	evidenceTimeout = 5 * time.Second
	// maxEvidence bounds the objects of each list for one machine, and maxEvidenceMemory their memory, in
	// bytes: that of fifty disks, or of two hundred events.
	maxEvidence, maxEvidenceMemory = 500, 256 << 10
	// maxRelatedMemory and maxAllRelatedMemory bound the memory of the related evidence of one machine and
	// of all machines, in bytes. That of a machine with its pod, its disks and fifty events has 200 KiB.
	// Evidence that exceeds the limit is not used.
	maxRelatedMemory, maxAllRelatedMemory = 512 << 10, 16 << 20
)

// investigate reads the evidence that the VirtualMachine and its instance do not contain: the
// DataVolumes, their sources, pods and events. Since a machine may wait for hours, it reads them
// only for a slow machine, and caches them between reads. Objects that the driver may not read, as
// with the Role of an older release, are omitted.
func (m *Machines) investigate(ctx context.Context, c *providerapi.Clients, in *spi.ObserveMachineInput, seen *evidence) {
	slow := m.periods.Retry
	if initialized(seen.Instance, m.options.NeedAddress) || m.options.Clock.Since(stepStart(seen)) < slow {
		return
	}

	if due := m.recall(seen, slow); due {
		m.keep(seen, (&reader{clients: c}).readRelated(ctx, in, seen))
		seen.fresh = true
	}
}

// evidence is what is known about a machine: its VirtualMachine and its instance, which are watched,
// and the related evidence.
type evidence struct {
	diagnose.Evidence

	// key identifies the record of the VirtualMachine.
	key machineKey
	// missing is the name of the source claim of a volume in the machine's namespace, if no DataVolume
	// of that name exists. It is related evidence, too.
	missing string
	// readAt is when the related evidence was read; zero if it was not.
	readAt time.Time
	// fresh is set if this call has read it.
	fresh bool
}

// setRelated replaces the related evidence.
func (e *evidence) setRelated(related evidence) {
	related.VirtualMachine = e.VirtualMachine
	related.Instance = e.Instance
	related.key = e.key
	*e = related
}

// setInstance sets the instance's latest state, and removes the evidence of an earlier step.
func (e *evidence) setInstance(instance *kubevirtv1.VirtualMachineInstance) {
	if e.Instance == nil || stepOf(e.Instance) != stepOf(instance) {
		e.setRelated(evidence{})
	}

	e.Instance = instance
}

// recall adds the related evidence that was read at this step. It returns true once in each interval:
// the related evidence has to be read again.
func (m *Machines) recall(seen *evidence, interval time.Duration) (due bool) {
	now := m.options.Clock.Now()

	m.use(seen.key, func(r *record) {
		if due = now.Sub(r.related.readAt) >= interval; due {
			r.related.readAt = now
		}

		if r.step == stepOf(seen.Instance) {
			seen.setRelated(r.related)
		}
	})

	return due
}

// keep adds the related evidence that was read at this step, and remembers it. If all of it takes too much
// memory, the evidence of each slow machine is read again.
func (m *Machines) keep(seen *evidence, related evidence) {
	memory := pages.MemoryOf(related)
	if memory > maxRelatedMemory {
		related = evidence{}
		memory = 0
	}

	m.use(seen.key, func(r *record) {
		related.readAt = r.related.readAt
		r.related = related
		r.memory = memory
		r.step = stepOf(seen.Instance)
	})

	seen.setRelated(related)

	if m.records.Weight() > maxAllRelatedMemory {
		m.records.Each((*record).dropRelated)
	}
}

// stepStart returns when the current step of the machine began.
func stepStart(seen *evidence) time.Time {
	if seen.Instance != nil {
		return seen.Instance.CreationTimestamp.Time
	}

	return seen.VirtualMachine.CreationTimestamp.Time
}

// step is the part of a machine's creation to be diagnosed: the UID of the launcher pod, or empty
// as long as the volumes are not ready. The evidence of one step is not valid for the next one.
type step string

// stepOf returns the step of a machine. A launcher pod without a node that the scheduler has not
// rejected waits for its volumes, also after an error of the scheduler itself, such as a conflict. A
// failed instance that is being replaced waits for the deletion of its pod.
func stepOf(instance *kubevirtv1.VirtualMachineInstance) step {
	if instance == nil || (instance.Status.Phase != kubevirtv1.Scheduling && instance.Status.Phase != kubevirtv1.Failed) {
		return ""
	}

	for uid, node := range instance.Status.ActivePods {
		if node != "" || isRejected(instance) {
			return step(uid)
		}
	}

	return ""
}

// isRejected reports whether the scheduler has rejected the launcher pod.
func isRejected(instance *kubevirtv1.VirtualMachineInstance) bool {
	return slices.ContainsFunc(instance.Status.Conditions, func(c kubevirtv1.VirtualMachineInstanceCondition) bool {
		return string(c.Type) == string(corev1.PodScheduled) && c.Status == corev1.ConditionFalse && c.Reason != corev1.PodReasonSchedulerError
	})
}

// hasSchedulerError reports whether the first attempt to schedule the launcher pod has ended with an
// error of the scheduler itself.
func hasSchedulerError(instance *kubevirtv1.VirtualMachineInstance) bool {
	return instance != nil && slices.ContainsFunc(instance.Status.Conditions, func(c kubevirtv1.VirtualMachineInstanceCondition) bool {
		return string(c.Type) == string(corev1.PodScheduled) && c.Reason == corev1.PodReasonSchedulerError
	})
}

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

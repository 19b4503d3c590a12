package providercluster

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi/diagnose"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi/render"
)

const (
	// evidenceTimeout bounds all that is read of one machine at a time: a worker waits for it that others may need. Nothing of it is
	// repeated: without it the diagnosis is less exact, and that is all.
	evidenceTimeout = 5 * time.Second
	// closeAfter drops the files of machines that are no longer asked about.
	closeAfter = 10 * time.Minute
)

// investigate reads what the VirtualMachine and its instance do not tell: the DataVolumes, what they are cloned from, and events. It
// does so only for a machine that takes long, and not often, since a machine may wait for hours. In between, what was found
// last is used again. What may not be read is left out: a Role of an older release does not grant it.
func (p *Provider) investigate(ctx context.Context, s *session, in *spi.ObserveMachineInput, seen *sighting) {
	slow := p.patience().Retry
	if p.initialized(seen.Instance) || p.options.Clock.Since(begun(seen)) < slow {
		return
	}

	uid, step := seen.VirtualMachine.UID, stepOf(seen.Instance)
	if p.files.due(uid, slow) {
		p.files.keep(uid, step, s.evidence(ctx, in, seen.Instance))
	}

	found, read := p.files.evidence(uid, step)
	seen.read = read
	seen.DataVolumes, seen.Images, seen.Pods, seen.Events = found.DataVolumes, found.Images, found.Pods, found.Events
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
func (s *session) evidence(
	ctx context.Context, in *spi.ObserveMachineInput, instance *kubevirtv1.VirtualMachineInstance,
) diagnose.Evidence {
	ctx, cancel := context.WithTimeout(ctx, evidenceTimeout)
	defer cancel()

	var found diagnose.Evidence

	pod := stepOf(instance)
	if pod != "" || nodeOf(instance) != "" {
		found.Pods = s.podsOf(ctx, instance)
	}

	if pod != "" {
		found.Events = s.eventsOf(ctx, "involvedObject.uid", string(pod))

		return found
	}

	found.DataVolumes = s.dataVolumesOf(ctx, in)

	dv := unfinished(found.DataVolumes)
	if dv == nil {
		return found
	}

	found.Images = s.imageOf(ctx, dv)
	// A DataVolume and its claim share their name.
	found.Events = s.eventsOf(ctx, "involvedObject.name", dv.Name)

	return found
}

func unfinished(volumes []cdiv1beta1.DataVolume) *cdiv1beta1.DataVolume {
	for i := range volumes {
		if volumes[i].Status.Phase != cdiv1beta1.Succeeded {
			return &volumes[i]
		}
	}

	return nil
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
	list, err := s.pods().List(ctx, metav1.ListOptions{
		LabelSelector: labels.Set{kubevirtv1.CreatedByLabel: string(instance.UID)}.String(),
	})
	if err != nil {
		return nil
	}

	return slices.DeleteFunc(list.Items, func(p corev1.Pod) bool {
		_, known := instance.Status.ActivePods[p.UID]

		return !known
	})
}

func (s *session) dataVolumesOf(ctx context.Context, in *spi.ObserveMachineInput) []cdiv1beta1.DataVolume {
	list, err := s.dataVolumes().List(ctx, metav1.ListOptions{LabelSelector: render.MachineSelector(in.Identity, in.Name)})
	if err != nil {
		return nil
	}

	return list.Items
}

// imageOf returns the DataVolume that fills what a DataVolume is cloned from. A claim may have come about in another way: then
// there is none.
func (s *session) imageOf(ctx context.Context, dv *cdiv1beta1.DataVolume) []cdiv1beta1.DataVolume {
	namespace, name, cloned := strings.Cut(diagnose.SourceOf(dv), "/")
	if !cloned {
		return nil
	}

	image, err := s.dataVolumesIn(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil
	}

	return []cdiv1beta1.DataVolume{*image}
}

func (s *session) eventsOf(ctx context.Context, field, value string) []corev1.Event {
	list, err := s.events().List(ctx, metav1.ListOptions{
		FieldSelector: fields.Set{field: value, "type": corev1.EventTypeWarning}.String(),
	})
	if err != nil {
		return nil
	}

	return list.Items
}

// files remember, of each machine that takes long, what was found of it and what was reported. Losing them, on a restart, is
// harmless.
type files struct {
	clock clock.PassiveClock

	mu       sync.Mutex
	machines map[types.UID]*file
}

type file struct {
	// evidence is what was found at a step, when it was asked for last.
	evidence diagnose.Evidence
	step     step
	asked    time.Time
	// reported is the reason of the failure that was reported last.
	reported string
	touched  time.Time
}

func newFiles(c clock.PassiveClock) *files {
	return &files{clock: c, machines: map[types.UID]*file{}}
}

// of returns a machine's file. The caller holds the lock.
func (f *files) of(machine types.UID) *file {
	now := f.clock.Now()
	for other, file := range f.machines {
		if now.Sub(file.touched) > closeAfter {
			delete(f.machines, other)
		}
	}

	if f.machines[machine] == nil {
		f.machines[machine] = &file{}
	}

	f.machines[machine].touched = now

	return f.machines[machine]
}

// due says whether evidence may be read, and takes note that it is.
func (f *files) due(machine types.UID, every time.Duration) bool {
	f.mu.Lock()
	defer f.mu.Unlock()

	file, now := f.of(machine), f.clock.Now()
	if now.Sub(file.asked) < every {
		return false
	}

	file.asked = now

	return true
}

func (f *files) keep(machine types.UID, at step, evidence diagnose.Evidence) {
	f.mu.Lock()
	defer f.mu.Unlock()

	file := f.of(machine)
	file.evidence, file.step = evidence, at
}

// evidence returns what was found at this step, and when.
func (f *files) evidence(machine types.UID, at step) (diagnose.Evidence, time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()

	file := f.of(machine)
	if file.step != at {
		return diagnose.Evidence{}, time.Time{}
	}

	return file.evidence, file.asked
}

func (f *files) report(machine types.UID, reason string) {
	f.mu.Lock()
	defer f.mu.Unlock()

	f.of(machine).reported = reason
}

func (f *files) reported(machine types.UID) string {
	f.mu.Lock()
	defer f.mu.Unlock()

	return f.of(machine).reported
}

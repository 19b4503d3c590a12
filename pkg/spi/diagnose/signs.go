package diagnose

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// origin is the source of a sign.
type origin string

const (
	machineFailure origin = "VirtualMachine's Failure"
	machineStart   origin = "VirtualMachine's start failures"
	instanceSync   origin = "VirtualMachineInstance's Synchronized"
	instancePhase  origin = "VirtualMachineInstance's phase"
	scheduler      origin = "VirtualMachineInstance's PodScheduled"
	volume         origin = "DataVolume"
	launcherPod    origin = "launcher pod"
	podEvent       origin = "launcher pod's event"
	volumeEvent    origin = "DataVolume's or claim's event"
	// migrationTarget and migration are read only for operators: the driver asks for no cause once a
	// machine is scheduled.
	migrationTarget origin = "migration's target pod"
	migration       origin = "VirtualMachineInstanceMigration"
)

// sign is a component's report about a machine.
type sign struct {
	from    origin
	reason  string
	message string
	// words is the message in lower case, without URLs, which may contain any word.
	words string
	// subject names the object, unless it is the machine itself.
	subject string
	// object is the object with the sign, kind the type of the condition or the field of its
	// status, and status the value.
	object       spi.ObjectName
	kind, status string
	since        time.Time
	// last is when it was last reported; zero if it is still reported.
	last time.Time
}

const (
	// crashes is the number of importer crashes that counts as a failure: the backoff has then
	// taken a minute.
	crashes = 3
	// failedStarts is the number of consecutive failed starts of an instance that counts as a
	// failure.
	failedStarts = 2

	// sizeMissing is CDI's message for a clone whose source does not exist yet
	// (pkg/controller/clone/planner.go). That may take as long as an import: it is not a failure.
	sizeMissing = "source/target size info missing"
)

// signs lists the components' reports, unweighted. It omits reports without a time: they do not
// come from the component that detected the problem. KubeVirt, for example, briefly reports
// "unschedulable" for a claim that it does not see yet
// (pkg/virt-controller/watch/vmi/lifecycle.go).
func (e *Evidence) signs(now time.Time) []sign {
	var all []sign

	if instance := e.instance(); instance == nil {
		all = append(all, ofVirtualMachine(e.VirtualMachine)...)
	} else {
		all = append(all, ofInstance(instance, e.Pods)...)
		all = append(all, ofMigrationTargets(instance, e.Pods)...)
		all = append(all, ofMigrations(instance, e.Migrations)...)
	}

	all = append(all, ofPods(e.Pods)...)
	all = append(all, e.ofVolumes()...)
	all = append(all, ofEvents(e.Events, now)...)

	for i := range all {
		all[i].words = strings.ToLower(withoutURLs(all[i].message))
	}

	return slices.DeleteFunc(all, func(s sign) bool { return s.since.IsZero() })
}

// instance returns the instance if it belongs to this VirtualMachine and is not being deleted.
func (e *Evidence) instance() *kubevirtv1.VirtualMachineInstance {
	if e.Instance == nil || e.Instance.DeletionTimestamp != nil {
		return nil
	}

	if owner := metav1.GetControllerOf(e.Instance); owner != nil && owner.UID != e.VirtualMachine.UID {
		return nil
	}

	return e.Instance
}

// ofVirtualMachine returns the virtual machine's own failures, which KubeVirt removes on the first
// success. Until then, the message is that of the first failure of its kind
// (pkg/controller/conditions.go), so it can hide a later one. The conditions that KubeVirt copies
// from an instance are not read: they may be a previous instance's.
func ofVirtualMachine(vm *kubevirtv1.VirtualMachine) []sign {
	var signs []sign

	ready := vm.CreationTimestamp.Time

	for i := range vm.Status.Conditions {
		c := &vm.Status.Conditions[i]

		switch {
		case c.Type == kubevirtv1.VirtualMachineFailure && c.Status == corev1.ConditionTrue:
			signs = append(signs, sign{
				from: machineFailure, reason: c.Reason, message: c.Message, since: c.LastTransitionTime.Time,
				object: named("VirtualMachine", vm), kind: string(c.Type), status: string(c.Status),
			})
		case c.Type == kubevirtv1.VirtualMachineReady:
			ready = c.LastTransitionTime.Time
		}
	}

	if f := vm.Status.StartFailure; f != nil && f.ConsecutiveFailCount >= failedStarts {
		signs = append(signs, sign{
			from: machineStart, message: "the guest, or its launcher pod, terminates repeatedly while it starts", since: ready,
			object: named("VirtualMachine", vm), kind: "StartFailure", status: fmt.Sprintf("%d in a row", f.ConsecutiveFailCount),
		})
	}

	return signs
}

func ofInstance(instance *kubevirtv1.VirtualMachineInstance, pods []corev1.Pod) []sign {
	var signs []sign

	for i := range instance.Status.Conditions {
		c := &instance.Status.Conditions[i]
		s := sign{
			reason: c.Reason, message: c.Message, since: c.LastTransitionTime.Time,
			object: named("VirtualMachineInstance", instance), kind: string(c.Type), status: string(c.Status),
		}

		switch {
		case c.Status != corev1.ConditionFalse:
			continue
		case string(c.Type) == string(corev1.PodScheduled):
			reason, words, still := schedulerSays(instance, c, pods)
			if !still {
				continue
			}

			s.from, s.reason, s.message = scheduler, reason, words
		case c.Type == kubevirtv1.VirtualMachineInstanceSynchronized:
			s.from = instanceSync
		default:
			continue
		}

		signs = append(signs, s)
	}

	if instance.Status.Phase == kubevirtv1.Failed {
		signs = append(signs, sign{
			from: instancePhase, reason: instance.Status.Reason, message: "VirtualMachineInstance " + instance.Name + " has failed",
			since:  latest(instance.CreationTimestamp.Time, phaseTime(instance, kubevirtv1.Failed)),
			object: named("VirtualMachineInstance", instance), kind: statusPhase, status: string(instance.Status.Phase),
		})
	}

	return signs
}

func phaseTime(instance *kubevirtv1.VirtualMachineInstance, phase kubevirtv1.VirtualMachineInstancePhase) time.Time {
	for i := range instance.Status.PhaseTransitionTimestamps {
		if t := &instance.Status.PhaseTransitionTimestamps[i]; t.Phase == phase {
			return t.PhaseTransitionTimestamp.Time
		}
	}

	return time.Time{}
}

// ofVolumes reads the images first: an image that is not complete is the
// cause of problems with its clones.
func (e *Evidence) ofVolumes() []sign {
	var signs []sign

	incomplete := map[string]bool{}

	for i := range e.Images {
		image := &e.Images[i]
		if image.Status.Phase == cdiv1beta1.Succeeded {
			continue
		}

		incomplete[image.Namespace+"/"+image.Name] = true
		signs = append(signs, ofDataVolume(image, "image")...)
	}

	for i := range e.DataVolumes {
		if dv := &e.DataVolumes[i]; !incomplete[SourceOf(dv)] {
			signs = append(signs, ofDataVolume(dv, "DataVolume")...)
		}
	}

	return signs
}

// SourceOf returns the namespace and name of the claim that a DataVolume is cloned
// from, separated by a slash; empty if it is not cloned. A DataVolume of that name, if
// there is one, fills the claim.
func SourceOf(dv *cdiv1beta1.DataVolume) string {
	if dv.Spec.Source == nil || dv.Spec.Source.PVC == nil {
		return ""
	}

	namespace := dv.Spec.Source.PVC.Namespace
	if namespace == "" {
		namespace = dv.Namespace
	}

	return namespace + "/" + dv.Spec.Source.PVC.Name
}

// ofDataVolume lists the conditions that are not true. Every DataVolume has some until it is
// complete: the table contains the reasons that are failures.
func ofDataVolume(dv *cdiv1beta1.DataVolume, kind string) []sign {
	if dv.Status.Phase == cdiv1beta1.Succeeded || dv.DeletionTimestamp != nil {
		return nil
	}

	var signs []sign

	subject := kind + " " + dv.Name

	for i := range dv.Status.Conditions {
		c := &dv.Status.Conditions[i]
		if c.Status == corev1.ConditionTrue || c.Message == sizeMissing {
			continue
		}

		signs = append(signs, sign{
			from: volume, reason: c.Reason, message: c.Message, subject: subject, since: conditionTime(dv, c),
			object: named("DataVolume", dv), kind: string(c.Type), status: string(c.Status),
		})
	}

	if dv.Status.Phase == cdiv1beta1.Failed {
		signs = append(signs, failedVolume(signs, dv, subject))
	}

	return signs
}

// failedVolume returns the sign of a DataVolume that CDI has given up, with the
// importer's message if there is one.
func failedVolume(signs []sign, dv *cdiv1beta1.DataVolume, subject string) sign {
	failed := sign{
		from: volume, reason: string(cdiv1beta1.Failed), message: "has failed", subject: subject, since: dv.CreationTimestamp.Time,
		object: named("DataVolume", dv), kind: statusPhase, status: string(dv.Status.Phase),
	}

	for _, s := range signs {
		if s.message != "" {
			failed.message = s.message
		}

		failed.since = latest(failed.since, s.since)
	}

	return failed
}

// conditionTime returns since when a condition has its present content. CDI updates its transition
// time only with the status, and the heartbeat with reason and message
// (pkg/controller/datavolume/conditions.go). An importer that crashes repeatedly has not succeeded
// since the beginning, even if it runs for a second in each attempt.
func conditionTime(dv *cdiv1beta1.DataVolume, c *cdiv1beta1.DataVolumeCondition) time.Time {
	if c.Type == cdiv1beta1.DataVolumeRunning && dv.Status.RestartCount >= crashes {
		return dv.CreationTimestamp.Time
	}

	return latest(c.LastTransitionTime.Time, c.LastHeartbeatTime.Time)
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}

	return a
}

// statusPhase is the kind of a sign that is an object's phase.
const statusPhase = "Phase"

func named(kind string, object metav1.Object) spi.ObjectName {
	return spi.ObjectName{Kind: kind, Namespace: object.GetNamespace(), Name: object.GetName()}
}

// shown returns the sign as it is shown to operators.
func (s *sign) shown() spi.Sign {
	shown := spi.Sign{
		Object: s.object, Type: s.kind, Status: s.status, Reason: s.reason, Message: shortened(withoutCredentials(s.message)), Since: s.since,
	}

	if !s.last.IsZero() {
		shown.Last = &s.last
	}

	return shown
}

// Signs returns the components' reports that differ from a machine's final state,
// whether they are a cause or not.
func (e *Evidence) Signs(now time.Time) []spi.Sign {
	var shown []spi.Sign

	for _, s := range e.signs(now) {
		if s.reason != "" || s.message != "" {
			shown = append(shown, s.shown())
		}
	}

	return shown
}

// says reports whether the sign's message contains one of the texts.
func (s *sign) says(texts []string) bool {
	return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(s.words, text) })
}

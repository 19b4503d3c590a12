// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

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
	copyScheduler  origin = "scheduler's event about a pod that copies a volume"
	instanceEvent  origin = "VirtualMachineInstance's event"
	machineSpec    origin = "VirtualMachine's spec"
	machineChange  origin = "VirtualMachine's managed fields"
	guestStart     origin = "VirtualMachineInstance's start"
	guestSync      origin = "VirtualMachineInstance's Synchronized, by virt-handler"
	guestPause     origin = "VirtualMachineInstance's Paused"
	guestEnd       origin = "VirtualMachineInstance's end"
	guestConsole   origin = "guest's serial console"
	importKill     origin = "importer that was killed"
	// retried are events about attempts that a later one has followed.
	retried       origin = "event of an earlier attempt"
	volumeStall   origin = "DataVolume without progress"
	claimDeletion origin = "claim that is being deleted"
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
	// command shows more about the object; empty if the remedy needs none.
	command string
	// silence marks a sign that no component reports: nothing has happened since then, which is normal for
	// a short time.
	silence bool
}

// normalSilence is the time that each normal step may take without a sign of progress.
const normalSilence = 30 * time.Second

// failedStarts is the number of consecutive failed starts of an instance that counts as a failure, if
// KubeVirt starts it again.
const failedStarts = 2

// signs lists the components' reports, unweighted. It omits reports without a time: they do not
// come from the component that detected the problem. KubeVirt, for example, briefly reports
// "unschedulable" for a claim that it does not see yet
// (pkg/virt-controller/watch/vmi/lifecycle.go).
func (e *Evidence) signs(now time.Time) []sign {
	all := append(ofSpec(e.VirtualMachine), ofSpecChanges(e.VirtualMachine)...)

	if instance := e.instance(); instance == nil {
		all = append(all, ofVirtualMachine(e.VirtualMachine)...)
	} else {
		all = append(all, ofInstance(instance, e.Pods)...)
		all = append(all, e.ofGuest(instance)...)
		all = append(all, ofMigrationTargets(instance, e.Pods)...)
		all = append(all, ofMigrations(instance, e.Migrations)...)
	}

	all = append(all, ofPods(e.Pods)...)
	all = append(all, e.ofVolumes()...)

	events := e.ofEvents(now)
	all = append(all, events...)
	all = append(all, e.ofKilledImports(events)...)
	all = append(all, ofDeletedClaims(e.Claims)...)

	for i := range all {
		all[i].words = strings.ToLower(withoutURLs(all[i].message))
	}

	// Their lines are compared already, and no component of the provider cluster has written them.
	all = append(all, e.ofConsole(now)...)

	return slices.DeleteFunc(all, func(s sign) bool {
		return s.since.IsZero() || (s.silence && now.Sub(s.since) < normalSilence)
	})
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
				from:    machineFailure,
				reason:  c.Reason,
				message: c.Message,
				since:   c.LastTransitionTime.Time,
				object:  named("VirtualMachine", vm),
				kind:    string(c.Type),
				status:  string(c.Status),
			})
		case c.Type == kubevirtv1.VirtualMachineReady:
			ready = c.LastTransitionTime.Time
		}
	}

	return append(signs, ofStartFailures(vm, ready)...)
}

// ofStartFailures returns the sign of instances that fail before they run. With the run strategy Once,
// the first failure is final.
func ofStartFailures(vm *kubevirtv1.VirtualMachine, since time.Time) []sign {
	failures := vm.Status.StartFailure
	if failures == nil {
		return nil
	}

	failed := sign{
		from:    machineStart,
		message: "the guest, or its launcher pod, terminates repeatedly while it starts",
		since:   since,
		object:  named("VirtualMachine", vm),
		kind:    "StartFailure",
		status:  fmt.Sprintf("%d in a row", failures.ConsecutiveFailCount),
	}

	switch {
	case runStrategyOf(vm) == kubevirtv1.RunStrategyOnce && failures.ConsecutiveFailCount > 0:
		failed.from = guestEnd
		failed.message = "the guest, or its launcher pod, has terminated while it started; " + notRestarted(vm)
	case failures.ConsecutiveFailCount < failedStarts:
		return nil
	}

	return []sign{failed}
}

func ofInstance(instance *kubevirtv1.VirtualMachineInstance, pods []corev1.Pod) []sign {
	var signs []sign

	for i := range instance.Status.Conditions {
		c := &instance.Status.Conditions[i]
		s := sign{
			reason:  c.Reason,
			message: c.Message,
			since:   c.LastTransitionTime.Time,
			object:  named("VirtualMachineInstance", instance),
			kind:    string(c.Type),
			status:  string(c.Status),
		}

		switch {
		case c.Status != corev1.ConditionFalse:
			continue
		case string(c.Type) == string(corev1.PodScheduled):
			reason, words, still := schedulerSays(instance, c, pods)
			if !still {
				continue
			}

			s.from = scheduler
			s.reason = reason
			s.message = words
		case c.Type == kubevirtv1.VirtualMachineInstanceSynchronized && instance.Status.Phase == kubevirtv1.Scheduled:
			s.from = guestSync // From this phase on, virt-handler sets the condition.
		case c.Type == kubevirtv1.VirtualMachineInstanceSynchronized:
			s.from = instanceSync
		default:
			continue
		}

		signs = append(signs, s)
	}

	if instance.Status.Phase == kubevirtv1.Failed {
		signs = append(signs, sign{
			from:    instancePhase,
			reason:  instance.Status.Reason,
			message: "VirtualMachineInstance " + instance.Name + " has failed",
			since:   latest(instance.CreationTimestamp.Time, phaseTime(instance, kubevirtv1.Failed)),
			object:  named("VirtualMachineInstance", instance),
			kind:    statusPhase,
			status:  string(instance.Status.Phase),
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
		Object:  s.object,
		Type:    s.kind,
		Status:  s.status,
		Reason:  s.reason,
		Message: shortened(withoutCredentials(s.message)),
		Since:   s.since,
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

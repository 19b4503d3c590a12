// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providercluster

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/diagnose"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// InitializeMachine implements spi.PluginSPI. Only some calls wait, and the others read the machine
// once, since the same workers check the health of all running machines. A new failure is reported
// immediately. A failure that was reported before is reported after the wait, since
// machine-controller-manager calls again within seconds.
func (m *Machines) InitializeMachine(ctx context.Context, in *spi.ObserveMachineInput) (*spi.Machine, error) {
	c, vm, err := m.getOwned(ctx, in)
	if err != nil {
		return nil, err
	}

	instance, err := instanceOf(ctx, c, vm)
	if err != nil {
		return nil, err
	}

	seen := &evidence{Evidence: diagnose.Evidence{VirtualMachine: vm, Instance: instance}, key: keyOf(c, vm.Name, vm.UID)}
	m.investigate(ctx, c, in, seen)

	if err := m.repairImage(ctx, c, in, seen); err != nil {
		return machineFrom(seen), err
	}

	verdict, err := m.awaitVerdict(ctx, c, seen)
	if err == nil {
		err = m.report(in, seen, verdict)
	}

	if verdict.initialized {
		m.arrived(ctx, c, seen.VirtualMachine)
	}

	return machineFrom(seen), err
}

func machineFrom(seen *evidence) *spi.Machine {
	machine := newMachine(seen.VirtualMachine.Name)
	machine.Addresses = addresses(seen.Instance)

	return machine
}

// awaitVerdict returns the verdict on a machine. It waits for a final one unless too many calls are
// waiting.
func (m *Machines) awaitVerdict(ctx context.Context, c *providerapi.Clients, seen *evidence) (verdict, error) {
	known := m.reported(seen)

	v := m.judge(seen)
	if v.final(known) {
		return v, nil
	}

	select {
	case m.waiters <- struct{}{}:
		defer func() { <-m.waiters }()

		return m.awaitScheduled(ctx, c, seen, known)
	default:
		return v, nil
	}
}

// verdict is the result of a diagnosis.
type verdict struct {
	// initialized is set if the machine is scheduled, and has an address if it needs one.
	initialized bool
	// failure is a failure that has lasted for its grace period; nil if there is none.
	failure *spi.Error
	// next is when a failure will have lasted for its grace period; zero if there is none.
	next time.Time
}

// final reports whether the call should return the verdict. A failure that was reported before is
// not final, since it may end during the wait.
func (v verdict) final(known string) bool {
	return v.initialized || (v.failure != nil && v.failure.Reason != known)
}

func (m *Machines) judge(seen *evidence) verdict {
	if initialized(seen.VirtualMachine, seen.Instance, m.options.NeedAddress) {
		return verdict{initialized: true}
	}

	// The related evidence may be outdated, so it is diagnosed at the time at which it was read.
	if !seen.readAt.IsZero() {
		if cause := seen.Cause(seen.readAt, m.periods); cause != nil && !cause.ReportableAt.After(seen.readAt) {
			return verdict{failure: cause.Err}
		}
	}

	now, live := m.options.Clock.Now(), seen.live()
	cause := live.Cause(now, m.periods)

	switch {
	case cause == nil:
		return verdict{}
	case cause.ReportableAt.After(now):
		return verdict{next: cause.ReportableAt}
	default:
		return verdict{failure: cause.Err}
	}
}

// live returns the evidence that is watched. Of the pods it includes only the conditions, whose
// first rejection by the scheduler KubeVirt copies: the status of their containers may be outdated.
func (e *evidence) live() *diagnose.Evidence {
	watched := &diagnose.Evidence{VirtualMachine: e.VirtualMachine, Instance: e.Instance}
	for i := range e.Pods {
		watched.Pods = append(watched.Pods, corev1.Pod{Status: corev1.PodStatus{Conditions: e.Pods[i].Status.Conditions}})
	}

	return watched
}

// reported returns the reason of the last failure that was reported; empty if there was none.
func (m *Machines) reported(seen *evidence) (reason string) {
	m.peek(seen.key, func(r *record) { reason = r.reported })

	return reason
}

// report returns a failure as an error, and records that it was reported.
func (m *Machines) report(in *spi.ObserveMachineInput, seen *evidence, v verdict) error {
	reason := ""
	if v.failure != nil {
		reason = v.failure.Reason
	}

	m.use(seen.key, func(r *record) {
		r.reported = reason

		if v.initialized {
			r.dropRelated()
		}
	})

	if v.failure != nil {
		return v.failure
	}

	progress := spi.Progress{Reason: "Scheduled", Message: "the machine is scheduled to a provider node"}
	if !v.initialized {
		progress = m.progressOf(seen)
	}

	if progress.Reason != "" {
		in.Report.Send(progress)
	}

	return nil
}

// progressOf returns the progress of a machine without a failure: the step in which it has made none for
// minutes, or else its stage.
func (m *Machines) progressOf(seen *evidence) spi.Progress {
	if seen.readAt.IsZero() {
		return stage(seen)
	}

	steps := seen.Evidence
	steps.WithStalls = true

	cause := steps.Cause(seen.readAt, m.periods)
	if cause == nil || cause.Err.Reason != diagnose.VolumeStalled || cause.ReportableAt.After(seen.readAt) {
		return stage(seen)
	}

	return spi.Progress{Reason: cause.Err.Reason, Message: cause.Err.Details()}
}

// stage returns the progress of a machine without a failure; empty before KubeVirt has processed
// it.
func stage(seen *evidence) spi.Progress {
	switch seen.VirtualMachine.Status.PrintableStatus {
	case kubevirtv1.VirtualMachineStatusProvisioning, kubevirtv1.VirtualMachineStatusWaitingForVolumeBinding, kubevirtv1.VirtualMachineStatusDataVolumeError:
		if image := unfinished(seen.Images, ""); image != nil {
			return importing(image)
		}

		message := "the machine's disks are being created"
		if dv := unfinished(seen.DataVolumes, goldenImageOf(seen.VirtualMachine)); dv != nil {
			message += fmt.Sprintf("; DataVolume %s is %s, progress %s", dv.Name, dv.Status.Phase, dv.Status.Progress)
		}

		return spi.Progress{Reason: "Provisioning", Message: message}
	case kubevirtv1.VirtualMachineStatusStarting:
		return spi.Progress{Reason: "Starting", Message: "the machine's disks are ready; its pod is starting"}
	default:
		return spi.Progress{}
	}
}

// importing returns the progress of an image, in whole percent: CDI reports hundredths of a
// percent, each of which would be an Event.
func importing(image *cdiv1beta1.DataVolume) spi.Progress {
	message := fmt.Sprintf("image %s, which the machine is cloned from, is %s", image.Name, image.Status.Phase)
	if percent, _, known := strings.Cut(string(image.Status.Progress), "."); known {
		message += ", " + percent + " %"
	}

	return spi.Progress{Reason: "GoldenImageImporting", Message: message}
}

// awaitScheduled follows the machine until the verdict is final, the time is over or a watch ends.
// machine-controller-manager calls again within seconds.
func (m *Machines) awaitScheduled(ctx context.Context, c *providerapi.Clients, seen *evidence, known string) (verdict, error) {
	ctx, cancel := context.WithTimeout(ctx, m.options.InitializeWait)
	defer cancel()

	f := &follower{clients: c, seen: seen}
	defer f.stop()

	for {
		v := m.judge(seen)
		if v.final(known) {
			return v, nil
		}

		if err := f.follow(ctx); err != nil {
			return v, unwatchable(c, err)
		}

		if !m.next(ctx, f, v) {
			return m.judge(seen), nil
		}
	}
}

// next waits for the next change of the machine, or until a failure has lasted for its grace
// period. It returns false if there is nothing more to follow.
func (m *Machines) next(ctx context.Context, f *follower, v verdict) bool {
	var reportable <-chan time.Time

	if !v.next.IsZero() {
		timer := m.options.Clock.NewTimer(v.next.Sub(m.options.Clock.Now()))
		defer timer.Stop()

		reportable = timer.C()
	}

	select {
	case <-ctx.Done():
		return false
	case <-reportable:
		return true
	case event := <-f.changes():
		return f.apply(event)
	}
}

// unwatchable returns the error of a watch that lacks permission. Other errors are not returned:
// the next call reads the objects first, and reports errors that persist.
func unwatchable(c *providerapi.Clients, err error) error {
	if !apierrors.IsForbidden(err) && !apierrors.IsUnauthorized(err) {
		return nil
	}

	return spi.During("watch machines in "+c.Namespace, providerapi.Explain(err))
}

// follower watches the object of a machine that changes next: the VirtualMachine until KubeVirt has
// created its instance, and then the instance. Each watch begins at the known resource version, so
// that no change is missed.
type follower struct {
	clients *providerapi.Clients
	seen    *evidence

	watch watch.Interface
	// instance is set if the instance is watched.
	instance bool
}

// follow begins to watch the object that changes next, unless it is watched already.
func (f *follower) follow(ctx context.Context) error {
	instance := f.seen.Instance != nil || f.seen.VirtualMachine.Status.Created
	if f.watch != nil && f.instance == instance {
		return nil
	}

	f.stop()

	f.instance = instance

	var err error
	if instance {
		f.watch, err = f.clients.Instances().WatchObject(ctx, instanceMeta(f.seen))
	} else {
		f.watch, err = f.clients.VirtualMachines().WatchObject(ctx, f.seen.VirtualMachine.ObjectMeta)
	}

	return err
}

// instanceMeta returns the metadata at which the watch of the instance begins: those of the known
// instance, or else the current state.
func instanceMeta(seen *evidence) metav1.ObjectMeta {
	if seen.Instance == nil {
		return metav1.ObjectMeta{Name: seen.VirtualMachine.Name}
	}

	return seen.Instance.ObjectMeta
}

func (f *follower) changes() <-chan watch.Event { return f.watch.ResultChan() }

// apply updates the state with a change. It returns false if there is nothing more to follow: the
// object is gone, or the watch has ended.
func (f *follower) apply(event watch.Event) bool {
	switch object := event.Object.(type) {
	case *kubevirtv1.VirtualMachine:
		f.seen.VirtualMachine = object
	case *kubevirtv1.VirtualMachineInstance:
		f.seen.setInstance(object)

		if event.Type == watch.Deleted {
			f.seen.Instance = nil
		}
	default:
		return false
	}

	return event.Type != watch.Deleted
}

func (f *follower) stop() {
	if f.watch != nil {
		f.watch.Stop()
		f.watch = nil
	}
}

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

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi/diagnose"
)

// InitializeMachine implements spi.PluginSPI. Waiting here is cheap, but not free: the same workers watch the health of every
// running machine, so only some calls wait and the others look once. A failure is reported at once when it is new, and after
// the wait when machine-controller-manager knows it already: it asks again in seconds.
func (p *Provider) InitializeMachine(ctx context.Context, in *spi.ObserveMachineInput) (*spi.Machine, error) {
	s, err := p.connect(in.Kubeconfig)
	if err != nil {
		return nil, err
	}

	vm, err := p.getOurs(ctx, s, in)
	if err != nil {
		return nil, err
	}

	instance, err := s.getInstance(ctx, in.Name)
	if err != nil {
		return nil, err
	}

	seen := &sighting{Evidence: diagnose.Evidence{VirtualMachine: vm, Instance: instance}}
	p.investigate(ctx, s, in, seen)

	if err := p.repairImage(ctx, s, in, seen); err != nil {
		return machineAt(seen), err
	}

	verdict, err := p.lookAfter(ctx, s, seen)
	if err == nil {
		err = p.report(in, seen, verdict)
	}

	if verdict.initialized {
		p.arrived(ctx, s, seen.VirtualMachine)
	}

	return machineAt(seen), err
}

// sighting is the newest state seen of a machine.
type sighting struct {
	diagnose.Evidence

	// read is when the evidence beside the VirtualMachine and its instance was read; zero if it was not.
	read time.Time
	// fresh says that it was read by this call.
	fresh bool
	// missing names what a volume is to be cloned from and was not there, see finding.
	missing string
}

// forget drops what was read apart.
func (s *sighting) forget() {
	s.DataVolumes, s.Images, s.Pods, s.Events, s.read, s.missing = nil, nil, nil, nil, time.Time{}, ""
}

// moveTo takes note of the instance's newest state. What was found of an earlier step is of no use any more.
func (s *sighting) moveTo(instance *kubevirtv1.VirtualMachineInstance) {
	if s.Instance == nil || stepOf(s.Instance) != stepOf(instance) {
		s.forget()
	}

	s.Instance = instance
}

func machineAt(seen *sighting) *spi.Machine {
	machine := machineNamed(seen.VirtualMachine.Name)
	machine.Addresses = addresses(seen.Instance)

	return machine
}

// lookAfter waits if there is something to wait for and a place to wait, and says what to think of the machine then.
func (p *Provider) lookAfter(ctx context.Context, s *session, seen *sighting) (verdict, error) {
	known := p.files.reported(seen.VirtualMachine.UID)

	v := p.judge(seen)
	if v.final(known) {
		return v, nil
	}

	select {
	case p.waiters <- struct{}{}:
		defer func() { <-p.waiters }()

		return p.awaitScheduled(ctx, s, seen, known)
	default:
		return v, nil
	}
}

// verdict is what to think of a machine.
type verdict struct {
	// initialized says that there is nothing left to wait for.
	initialized bool
	// failure has lasted for its grace period; nil if there is none.
	failure *spi.Error
	// next is when a failure will have lasted for its grace period; zero if there is none.
	next time.Time
}

// final says whether the verdict is worth an answer. A failure that is known already is not: it may end.
func (v verdict) final(known string) bool {
	return v.initialized || (v.failure != nil && v.failure.Reason != known)
}

func (p *Provider) judge(seen *sighting) verdict {
	if p.initialized(seen.Instance) {
		return verdict{initialized: true}
	}

	// What was read apart may have passed since: it counts by the time at which it was read. The next call reads it again.
	if !seen.read.IsZero() {
		if cause := seen.Cause(seen.read, p.gracePeriods()); cause != nil && !cause.ReportableAt.After(seen.read) {
			return verdict{failure: cause.Err}
		}
	}

	now, live := p.options.Clock.Now(), seen.live()
	cause := live.Cause(now, p.gracePeriods())

	switch {
	case cause == nil:
		return verdict{}
	case cause.ReportableAt.After(now):
		return verdict{next: cause.ReportableAt}
	default:
		return verdict{failure: cause.Err}
	}
}

// live is the evidence that is watched. Of the pods only the scheduler's word stays, of which KubeVirt copies the first: what their kubelet
// does may have changed since they were read.
func (s *sighting) live() *diagnose.Evidence {
	e := &diagnose.Evidence{VirtualMachine: s.VirtualMachine, Instance: s.Instance}
	for i := range s.Pods {
		e.Pods = append(e.Pods, corev1.Pod{Status: corev1.PodStatus{Conditions: s.Pods[i].Status.Conditions}})
	}

	return e
}

// report returns a failure as an error, and remembers that it was reported.
func (p *Provider) report(in *spi.ObserveMachineInput, seen *sighting, v verdict) error {
	if v.initialized {
		in.Report.Tell(spi.Progress{Reason: "Scheduled", Message: "the machine has its place on a provider node"})
	}

	if v.failure == nil {
		if now := stage(seen); !v.initialized && now.Reason != "" {
			in.Report.Tell(now)
		}

		p.files.report(seen.VirtualMachine.UID, "")

		return nil
	}

	p.files.report(seen.VirtualMachine.UID, v.failure.Reason)

	return v.failure
}

// stage says how far a machine without a failure has come; nothing before KubeVirt has looked at it.
func stage(seen *sighting) spi.Progress {
	switch seen.VirtualMachine.Status.PrintableStatus {
	case kubevirtv1.VirtualMachineStatusProvisioning, kubevirtv1.VirtualMachineStatusWaitingForVolumeBinding, kubevirtv1.VirtualMachineStatusDataVolumeError:
		if image := unfinished(seen.Images, ""); image != nil {
			return importing(image)
		}

		message := "the machine's disks are being made"
		if dv := unfinished(seen.DataVolumes, goldenImageOf(seen.VirtualMachine)); dv != nil {
			message += fmt.Sprintf("; DataVolume %s is %s, progress %s", dv.Name, dv.Status.Phase, dv.Status.Progress)
		}

		return spi.Progress{Reason: "Provisioning", Message: message}
	case kubevirtv1.VirtualMachineStatusStarting:
		return spi.Progress{Reason: "Starting", Message: "the machine's disks are there; its pod is starting"}
	default:
		return spi.Progress{}
	}
}

// importing says how far what a machine is cloned from has come. CDI counts in hundredths of a percent, which nobody wants to follow.
func importing(image *cdiv1beta1.DataVolume) spi.Progress {
	message := fmt.Sprintf("image %s, which the machine is cloned from, is %s", image.Name, image.Status.Phase)
	if percent, _, known := strings.Cut(string(image.Status.Progress), "."); known {
		message += ", " + percent + " %"
	}

	return spi.Progress{Reason: "GoldenImageImporting", Message: message}
}

func (p *Provider) gracePeriods() diagnose.GracePeriods {
	return diagnose.GracePeriodsOf(p.options.UnschedulableGrace)
}

// awaitScheduled follows the machine until there is something to answer. It returns too when its time is over or a watch ends:
// machine-controller-manager asks again in seconds.
func (p *Provider) awaitScheduled(ctx context.Context, s *session, seen *sighting, known string) (verdict, error) {
	ctx, cancel := context.WithTimeout(ctx, p.options.InitializeWait)
	defer cancel()

	f := &follower{session: s, seen: seen}
	defer f.stop()

	for {
		v := p.judge(seen)
		if v.final(known) {
			return v, nil
		}

		if err := f.follow(ctx); err != nil {
			return v, s.unwatchable(err)
		}

		if !p.next(ctx, f, v) {
			return p.judge(seen), nil
		}
	}
}

// next takes the next change of the machine, or the moment at which a failure becomes old enough. It returns false when there
// is nothing more to follow.
func (p *Provider) next(ctx context.Context, f *follower, v verdict) bool {
	var reportable <-chan time.Time

	if !v.next.IsZero() {
		timer := p.options.Clock.NewTimer(v.next.Sub(p.options.Clock.Now()))
		defer timer.Stop()

		reportable = timer.C()
	}

	select {
	case <-ctx.Done():
		return false
	case <-reportable:
		return true
	case event := <-f.changes():
		return f.take(event)
	}
}

// unwatchable reports a watch that will never work. Any other failure is the next call's to see: it reads first.
func (s *session) unwatchable(err error) error {
	if !apierrors.IsForbidden(err) && !apierrors.IsUnauthorized(err) {
		return nil
	}

	return spi.During("watch machines in "+s.clients.Namespace, providerapi.Explain(err))
}

// follower watches the one object of a machine that can change next: the VirtualMachine until KubeVirt has made an instance of it,
// then the instance. Each is watched from where it was seen, so that nothing is missed.
type follower struct {
	session *session
	seen    *sighting

	watch watch.Interface
	// instance says which of the two is watched.
	instance bool
}

// follow begins to watch what is to be watched now, unless it is watched already.
func (f *follower) follow(ctx context.Context) error {
	instance := f.seen.Instance != nil || f.seen.VirtualMachine.Status.Created
	if f.watch != nil && f.instance == instance {
		return nil
	}

	f.stop()

	f.instance = instance

	var err error
	if instance {
		f.watch, err = providerapi.Watch(ctx, f.session.instances(), instanceMeta(f.seen))
	} else {
		f.watch, err = providerapi.Watch(ctx, f.session.virtualMachines(), f.seen.VirtualMachine.ObjectMeta)
	}

	return err
}

// instanceMeta tells a watch where to begin: at the instance that was seen, or, if there was none, at whatever is there now.
func instanceMeta(seen *sighting) metav1.ObjectMeta {
	if seen.Instance == nil {
		return metav1.ObjectMeta{Name: seen.VirtualMachine.Name}
	}

	return seen.Instance.ObjectMeta
}

func (f *follower) changes() <-chan watch.Event { return f.watch.ResultChan() }

// take makes a change part of what is seen. It returns false when there is nothing more to follow: the object is gone, or the
// watch has ended.
func (f *follower) take(event watch.Event) bool {
	switch object := event.Object.(type) {
	case *kubevirtv1.VirtualMachine:
		f.seen.VirtualMachine = object
	case *kubevirtv1.VirtualMachineInstance:
		f.seen.moveTo(object)

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

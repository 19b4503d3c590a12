package providercluster

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi/diagnose"
)

// InitializeMachine implements spi.PluginSPI. Waiting here is cheap, but not free: the same workers watch the health of every
// running machine, so only some calls wait and the others look once.
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

	seen := &sighting{vm: vm, instance: instance}
	if done, err := p.judge(seen); done {
		return machineAt(seen), err
	}

	select {
	case p.waiters <- struct{}{}:
		defer func() { <-p.waiters }()

		err = p.awaitScheduled(ctx, s, seen)
	default:
	}

	return machineAt(seen), err
}

// sighting is the newest state seen of a machine. The instance is nil while there is none.
type sighting struct {
	vm       *kubevirtv1.VirtualMachine
	instance *kubevirtv1.VirtualMachineInstance
}

func machineAt(seen *sighting) *spi.Machine {
	machine := machineNamed(seen.vm.Name)
	machine.Addresses = addresses(seen.instance)

	return machine
}

// judge says whether there is nothing left to wait for: the machine is scheduled, or a failure has stood for long enough.
func (p *Provider) judge(seen *sighting) (bool, error) {
	if p.initialized(seen.instance) {
		return true, nil
	}

	cause := diagnose.Machine(seen.vm, seen.instance)
	if cause == nil || p.graceLeft(cause) > 0 {
		return false, nil
	}

	return true, cause
}

func (p *Provider) graceLeft(cause *diagnose.Cause) time.Duration {
	return p.options.UnschedulableGrace - p.options.Clock.Since(cause.Since)
}

// awaitScheduled follows the machine until there is nothing left to wait for. It returns nil too when its time is over or a
// watch ends: machine-controller-manager asks again in seconds.
func (p *Provider) awaitScheduled(ctx context.Context, s *session, seen *sighting) error {
	ctx, cancel := context.WithTimeout(ctx, p.options.InitializeWait)
	defer cancel()

	vms, err := s.virtualMachines().Watch(ctx, metav1.SingleObject(seen.vm.ObjectMeta))
	if err != nil {
		return s.unwatchable(err)
	}
	defer vms.Stop()

	instances, err := s.instances().Watch(ctx, metav1.SingleObject(instanceMeta(seen)))
	if err != nil {
		return s.unwatchable(err)
	}
	defer instances.Stop()

	for {
		if done, err := p.judge(seen); done {
			return err
		}

		if !p.follow(ctx, seen, vms, instances) {
			return nil
		}
	}
}

// unwatchable reports a watch that will never work. Any other failure is the next call's to see: it reads first.
func (s *session) unwatchable(err error) error {
	if !apierrors.IsForbidden(err) && !apierrors.IsUnauthorized(err) {
		return nil
	}

	return fmt.Errorf("%w: watch machines in %s: %w", sentinelOf(err), s.clients.Namespace, err)
}

// instanceMeta tells a watch where to begin: at the instance that was seen, or, if there was none, at whatever is there now.
func instanceMeta(seen *sighting) metav1.ObjectMeta {
	if seen.instance == nil {
		return metav1.ObjectMeta{Name: seen.vm.Name}
	}

	return seen.instance.ObjectMeta
}

// follow takes the next change of the machine, or the moment at which a failure becomes old enough. It returns false when
// there is nothing more to follow.
func (p *Provider) follow(ctx context.Context, seen *sighting, vms, instances watch.Interface) bool {
	var ripe <-chan time.Time

	if cause := diagnose.Machine(seen.vm, seen.instance); cause != nil {
		timer := p.options.Clock.NewTimer(p.graceLeft(cause))
		defer timer.Stop()

		ripe = timer.C()
	}

	select {
	case <-ctx.Done():
		return false
	case <-ripe:
		return true
	case event := <-vms.ResultChan():
		vm, ok := event.Object.(*kubevirtv1.VirtualMachine)
		if !ok || event.Type == watch.Deleted {
			return false
		}

		seen.vm = vm
	case event := <-instances.ResultChan():
		instance, ok := event.Object.(*kubevirtv1.VirtualMachineInstance)
		if !ok {
			return false
		}

		seen.instance = instance
		if event.Type == watch.Deleted {
			seen.instance = nil
		}
	}

	return true
}

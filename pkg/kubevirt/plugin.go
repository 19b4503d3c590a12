// Package kubevirt is the MachinePlugin: machine-controller-manager's driver interface. It decodes and validates requests,
// hands them to the PluginSPI and turns its answers into responses and machine codes. One file is one RPC. cmd/machine-controller
// runs it. It must not see a client or a type of KubeVirt's API.
package kubevirt

import (
	"context"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/driver"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1/validation"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/machineclass"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/phases"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// Options are the plugin's settings. All are required, but for Observers and Addresses.
type Options struct {
	// CreationTimeout is machine-controller-manager's, for machines that do not have their own.
	CreationTimeout time.Duration
	// CSIDriverName is the name of the CSI driver whose volumes GetVolumeIDs answers for.
	CSIDriverName string
	// Allowed is what a ProviderSpec may hold.
	Allowed validation.Options
	// Events takes the progress of machines and what is wrong with them, as Events on the Machines.
	Events EventRecorder
	// Observers are told of the classes that requests carry.
	Observers []Observer
	// Addresses is told where machines were seen; nil: only the responses of CreateMachine and DeleteMachine tell.
	Addresses Addresses
}

// Addresses has Machines record the addresses of their VirtualMachines.
type Addresses interface {
	// Listed takes note of what a listing for a class has found, and never changes it. It waits for nothing.
	Listed(class *v1alpha1.MachineClass, machines []spi.Machine)
}

// MachinePlugin implements driver.Driver. It is safe for concurrent use, and never mutates a request.
type MachinePlugin struct {
	spi     spi.PluginSPI
	options Options
	calls   *calls
	journal *journal
	phases  *phases.Tracker
	missing *missing
}

var _ driver.Driver = (*MachinePlugin)(nil)

// New returns the plugin in front of a PluginSPI.
func New(s spi.PluginSPI, options Options) *MachinePlugin {
	return &MachinePlugin{
		spi: s, options: options, calls: newCalls(), journal: newJournal(options.Events),
		missing: newMissing(clock.RealClock{}),
		phases:  phases.NewTracker(clock.RealClock{}, phases.Accepted, phases.Image, phases.Scheduled, phases.Running),
	}
}

// Stop cancels the calls that are under way, and waits until they have returned or ctx is over. Every later call ends at once.
// Nothing is lost: each call can be repeated by the next process.
func (p *MachinePlugin) Stop(ctx context.Context) {
	p.calls.end(ctx)
}

// begin returns the context of a call, and what its end must run: that hands the call's error on in the terms of
// machine-controller-manager, counts it, and tells it in the log and in the machine's Events. The machine is nil for a call that is about many.
func (p *MachinePlugin) begin(
	ctx context.Context, method string, machine *v1alpha1.Machine, source machineclass.KubeconfigSource,
) (inCall context.Context, end func(error) error) {
	started := time.Now()
	ctx, finish := p.calls.begin(ctx)

	return ctx, func(err error) error {
		defer finish()

		cut := cutOff(ctx, err)
		if err != nil && !cut {
			p.journal.failed(machine, err, source)
		}

		if !cut {
			p.missing.answered(machine, err)
		}

		err = statusFrom(err, source)
		if !cut {
			countCall(method, time.Since(started), err)
		}

		logged(ctx, method, machine, started, err)

		return err
	}
}

// logged logs a call's end, its duration and its outcome. What err says is free of secrets, see statusFrom.
func logged(ctx context.Context, method string, machine *v1alpha1.Machine, started time.Time, err error) {
	log := klog.FromContext(ctx).WithValues("method", method, "machine", klog.KObj(machine), "duration", time.Since(started).Round(time.Millisecond))
	if err != nil {
		log.V(2).Info("Driver call ended with a code", "err", err)

		return
	}

	log.V(3).Info("Driver call succeeded")
}

// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package kubevirt is the MachinePlugin: machine-controller-manager's driver interface. It decodes
// requests with pkg/machineclass, passes them to the PluginSPI, and converts the results to
// responses and machine codes. Each RPC has its own file. cmd/machine-controller and
// cmd/mcm-kubevirt run the plugin. It must not depend on a client or a type of KubeVirt's API.
package kubevirt

import (
	"context"
	"errors"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	"github.com/gardener/machine-controller-manager/pkg/util/provider/driver"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1/validation"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/machineclass"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/records"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// Options are the plugin's settings. CreationTimeout and Allowed are required.
type Options struct {
	// CreationTimeout is the time after which machine-controller-manager replaces a machine that has not
	// joined, unless the Machine sets its own.
	CreationTimeout time.Duration
	// Allowed restricts the ProviderSpecs.
	Allowed validation.Options
	// Events records the progress and the failures of machines as Events on the Machines; nil to record
	// nothing. It must not change the Machines.
	Events record.EventRecorder
	// Observers observe the MachineClasses of requests.
	Observers []Observer
	// Kubeconfigs provides the kubeconfigs of provider clusters. If it is nil, the Secrets of requests
	// do.
	Kubeconfigs Kubeconfigs
	// Addresses records the addresses of listed machines. If it is nil, only the responses of
	// CreateMachine and DeleteMachine contain addresses.
	Addresses Addresses
}

// Addresses records the addresses of VirtualMachines on their Machines.
type Addresses interface {
	// Listed receives the machines of a class's list, and must not modify them. It must not block.
	Listed(class *v1alpha1.MachineClass, machines []spi.Machine)
}

// MachinePlugin implements driver.Driver. It is safe for concurrent use, and never modifies a
// request.
type MachinePlugin struct {
	spi     spi.PluginSPI
	options Options
	calls   *calls
	records *records.Store[machineRecord]
	phases  *records.Phases[machineRecord]
}

var _ driver.Driver = (*MachinePlugin)(nil)

// New returns the plugin in front of a PluginSPI.
func New(s spi.PluginSPI, options Options) *MachinePlugin {
	store := records.NewStore[machineRecord](clock.RealClock{}, records.Retention)

	return &MachinePlugin{
		spi:     s,
		options: options,
		calls:   newCalls(),
		records: store,
		phases: records.NewPhases(store, func(r *machineRecord) *records.Progress { return &r.progress },
			records.Accepted, records.Image, records.Scheduled, records.Running),
	}
}

// Stop cancels the ongoing calls, and waits until they have ended or ctx is done. Later calls end
// immediately. The next process can repeat each call.
func (p *MachinePlugin) Stop(ctx context.Context) {
	p.calls.end(ctx)
}

// begin returns the context of a call, and the function to run when the call ends. That function
// converts the call's error to machine-controller-manager's form, counts it, logs it, and records
// an Event on the Machine. The machine is nil for a call that is not about one machine.
func (p *MachinePlugin) begin(
	ctx context.Context, method string, machine *v1alpha1.Machine, source machineclass.KubeconfigSource,
) (inCall context.Context, end func(error) error) {
	started := time.Now()
	ctx, finish := p.calls.begin(ctx)

	return ctx, func(err error) error {
		defer finish()

		cancelled := isCancelled(ctx, err)
		if err != nil && !cancelled {
			p.recordFailure(machine, err, source)
		}

		if !cancelled {
			p.remember(machine, func(r *machineRecord) { r.missing = errors.Is(err, spi.ErrAddressChanged) })
		}

		err = statusFrom(err, source)
		if !cancelled {
			countCall(method, time.Since(started), err)
		}

		logCall(ctx, method, machine, started, err)

		return err
	}
}

// logCall logs the end of a call, with its duration and result. An error of statusFrom contains no
// secrets.
func logCall(ctx context.Context, method string, machine *v1alpha1.Machine, started time.Time, err error) {
	log := klog.FromContext(ctx).WithValues("method", method, "machine", klog.KObj(machine), "duration", time.Since(started).Round(time.Millisecond))
	if err != nil {
		log.V(2).Info("Driver call ended with a code", "err", err)

		return
	}

	log.V(3).Info("Driver call succeeded")
}

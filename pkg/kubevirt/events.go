// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package kubevirt

import (
	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	corev1 "k8s.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/machineclass"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/statustext"
)

// event is the content of an Event.
type event struct {
	eventType, reason, message string
}

// reportFor returns the receiver of the progress of a machine.
func (p *MachinePlugin) reportFor(machine *v1alpha1.Machine) spi.Report {
	return func(step spi.Progress) {
		p.recordEvent(machine, event{corev1.EventTypeNormal, step.Reason, statustext.Fit(step.Message)})
	}
}

// recordFailure records the failure of a call as an Event. Expected responses are omitted.
func (p *MachinePlugin) recordFailure(machine *v1alpha1.Machine, err error, source machineclass.KubeconfigSource) {
	if meaningOf(err).failure() {
		e := completed(err, source)
		p.recordEvent(machine, event{corev1.EventTypeWarning, e.Reason, statustext.FitWithRemedy(e.Message, e.Remedy)})
	}
}

// recordEvent records the progress or a failure of a machine as an Event on its Machine. The status of
// a Machine shows no progress, and is not updated if only the text of an error has changed.
func (p *MachinePlugin) recordEvent(machine *v1alpha1.Machine, e event) {
	if p.options.Events == nil {
		return
	}

	isNew := false

	p.remember(machine, func(r *machineRecord) {
		isNew = r.event != e
		r.event = e
	})

	if isNew {
		p.options.Events.Event(machine, e.eventType, e.reason, e.message)
	}
}

// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package kubevirt

import (
	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	corev1 "k8s.io/api/core/v1"
)

// Observer observes the MachineClasses of requests, with their current credentials. Its first
// request shows that this process is the leader.
type Observer interface {
	// Observe receives the class and the Secret of a request, and must not modify them. It must not
	// block.
	Observe(class *v1alpha1.MachineClass, secret *corev1.Secret)
}

// notifyObservers notifies the observers of a request's class before the request is executed.
func (p *MachinePlugin) notifyObservers(class *v1alpha1.MachineClass, secret *corev1.Secret) {
	if class == nil {
		return
	}

	for _, observer := range p.options.Observers {
		observer.Observe(class, secret)
	}
}

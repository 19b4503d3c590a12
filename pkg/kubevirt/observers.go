package kubevirt

import (
	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	corev1 "k8s.io/api/core/v1"
)

// Observer learns from requests which MachineClasses there are, and what their credentials are now. Its first request proves that
// this process leads.
type Observer interface {
	// Seen takes note of a request's class and its Secret, both never changed. It waits for nothing.
	Seen(class *v1alpha1.MachineClass, secret *corev1.Secret)
}

// seen tells of a request's class before the request is carried out.
func (p *MachinePlugin) seen(class *v1alpha1.MachineClass, secret *corev1.Secret) {
	if class == nil {
		return
	}

	for _, observer := range p.options.Observers {
		observer.Seen(class, secret)
	}
}

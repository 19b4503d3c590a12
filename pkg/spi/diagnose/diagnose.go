// Package diagnose names the one cause that keeps a machine from being scheduled, from what is seen on the provider cluster.
// pkg/spi/providercluster calls it. It is pure: it must not see a context, clock, client, environment or log.
package diagnose

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// exceededQuota is how Kubernetes' quota admission says it
// (k8s.io/kubernetes/plugin/pkg/admission/resourcequota/controller.go).
const exceededQuota = "exceeded quota"

// Cause says why a machine is not scheduled. It is an error, and wraps the sentinel that says what kind of failure it is.
type Cause struct {
	// Reason is a stable token, fit for matching.
	Reason string
	// Message is what the component that refused said.
	Message string
	// Since is when it began, by the clock of the provider cluster.
	Since time.Time

	kind error
}

// Error returns the reason and the message.
func (c *Cause) Error() string { return fmt.Sprintf("%s: %s", c.Reason, c.Message) }

// Unwrap returns the sentinel.
func (c *Cause) Unwrap() error { return c.kind }

// Machine returns the cause that keeps a machine from being scheduled, or nil if nothing is known to be wrong. Instance is
// nil while there is none. A cause may pass by itself: how long it must stand before it counts is the caller's to decide.
func Machine(vm *kubevirtv1.VirtualMachine, instance *kubevirtv1.VirtualMachineInstance) *Cause {
	if instance == nil {
		return ofVirtualMachine(vm)
	}

	return ofInstance(instance)
}

// ofVirtualMachine looks at the virtual machine's own failure, which KubeVirt removes at the first success. While it stands, its
// message is that of the first failure of its kind (pkg/controller/conditions.go), so a later quota can hide behind it. The
// conditions that KubeVirt copies from an instance are not read: they may be a previous instance's.
func ofVirtualMachine(vm *kubevirtv1.VirtualMachine) *Cause {
	for i := range vm.Status.Conditions {
		c := &vm.Status.Conditions[i]
		if c.Type == kubevirtv1.VirtualMachineFailure && c.Status == corev1.ConditionTrue && strings.Contains(c.Message, exceededQuota) {
			return exhausted("QuotaExceeded", c.Message, c.LastTransitionTime)
		}
	}

	return nil
}

func ofInstance(instance *kubevirtv1.VirtualMachineInstance) *Cause {
	for i := range instance.Status.Conditions {
		c := &instance.Status.Conditions[i]
		if c.Status != corev1.ConditionFalse {
			continue
		}

		switch {
		case string(c.Type) == string(corev1.PodScheduled) && c.Reason == corev1.PodReasonUnschedulable:
			return exhausted("Unschedulable", c.Message, c.LastTransitionTime)
		case c.Type == kubevirtv1.VirtualMachineInstanceSynchronized && strings.Contains(c.Message, exceededQuota):
			return exhausted("QuotaExceeded", c.Message, c.LastTransitionTime)
		}
	}

	return nil
}

// exhausted returns nil for a condition without a time. That is not the scheduler's word: KubeVirt says the same, for a moment,
// of a claim that it does not see yet (pkg/virt-controller/watch/vmi/lifecycle.go).
func exhausted(reason, message string, since metav1.Time) *Cause {
	if since.IsZero() {
		return nil
	}

	return &Cause{Reason: reason, Message: message, Since: since.Time, kind: spi.ErrExhausted}
}

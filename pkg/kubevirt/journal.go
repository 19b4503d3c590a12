package kubevirt

import (
	"sync"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/statustext"
)

// EventRecorder records Events, as those of client-go do. It must not change the object.
type EventRecorder interface {
	Event(object runtime.Object, eventType, reason, message string)
}

// rememberedMachines is of how many machines the last step is remembered: more than are ever on their way at once.
const rememberedMachines = 1000

// journal writes the progress of machines as Events on them. machine-controller-manager's status cannot show it: whatever is
// not an error there looks the same. A step that is told again is not written again.
type journal struct {
	events EventRecorder

	mu   sync.Mutex
	last *lru.Cache
}

func newJournal(events EventRecorder) *journal {
	return &journal{events: events, last: lru.New(rememberedMachines)}
}

// of returns what takes the progress of a machine.
func (j *journal) of(machine *v1alpha1.Machine) spi.Report {
	if j.events == nil {
		return nil
	}

	return func(step spi.Progress) {
		if j.news(machine.UID, step) {
			j.events.Event(machine, eventType(step), step.Reason, statustext.Fit(step.Message))
		}
	}
}

func (j *journal) news(machine types.UID, step spi.Progress) bool {
	j.mu.Lock()
	defer j.mu.Unlock()

	if last, known := j.last.Get(machine); known && last == step {
		return false
	}

	j.last.Add(machine, step)

	return true
}

func eventType(step spi.Progress) string {
	if step.Warning {
		return corev1.EventTypeWarning
	}

	return corev1.EventTypeNormal
}

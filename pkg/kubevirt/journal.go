package kubevirt

import (
	"sync"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/machineclass"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/statustext"
)

// EventRecorder records Events, as those of client-go do. It must not change the object.
type EventRecorder interface {
	Event(object runtime.Object, eventType, reason, message string)
}

// rememberedMachines is of how many machines the last note is remembered: more than are ever on their way at once.
const rememberedMachines = 1000

// journal writes the progress of machines, and what is wrong with them, as Events on them. machine-controller-manager's status cannot
// show it all: whatever is not an error there looks the same, and a text like the one before is not written. A note that is the same
// as the machine's last one is not written again.
type journal struct {
	events EventRecorder

	mu   sync.Mutex
	last *lru.Cache
}

// note is what an Event says.
type note struct {
	eventType, reason, message string
}

func newJournal(events EventRecorder) *journal {
	return &journal{events: events, last: lru.New(rememberedMachines)}
}

// reportFor returns the receiver of the progress of a machine.
func (j *journal) reportFor(machine *v1alpha1.Machine) spi.Report {
	return func(step spi.Progress) {
		j.write(machine, note{corev1.EventTypeNormal, step.Reason, statustext.Fit(step.Message)})
	}
}

// failed records the failure that a call ended with. Expected responses are omitted.
func (j *journal) failed(machine *v1alpha1.Machine, err error, source machineclass.KubeconfigSource) {
	if meaningOf(err).failure() {
		e := completed(err, source)
		j.write(machine, note{corev1.EventTypeWarning, e.Reason, statustext.FitWithRemedy(e.Message, e.Remedy)})
	}
}

// write leaves out Machines without a UID, which machine-controller-manager has made up of an orphan's name: there is none.
func (j *journal) write(machine *v1alpha1.Machine, n note) {
	if j.events != nil && machine != nil && machine.UID != "" && j.news(machine.UID, n) {
		j.events.Event(machine, n.eventType, n.reason, n.message)
	}
}

func (j *journal) news(machine types.UID, n note) bool {
	j.mu.Lock()
	defer j.mu.Unlock()

	if last, known := j.last.Get(machine); known && last == n {
		return false
	}

	j.last.Add(machine, n)

	return true
}

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

// EventRecorder records Events, like client-go's recorders. It must not change the object.
type EventRecorder interface {
	Event(object runtime.Object, eventType, reason, message string)
}

// maxJournalEntries bounds the machines whose last Event is remembered. It exceeds the number of
// machines that are created at the same time.
const maxJournalEntries = 1000

// journal records the progress and the failures of machines as Events on the Machines. The status
// of a Machine shows no progress, and is not updated if only the text of an error has changed. An
// Event that equals the machine's last one is not recorded again.
type journal struct {
	events EventRecorder

	mu   sync.Mutex
	last *lru.Cache
}

// note is the content of an Event.
type note struct {
	eventType, reason, message string
}

func newJournal(events EventRecorder) *journal {
	return &journal{events: events, last: lru.New(maxJournalEntries)}
}

// reportFor returns the receiver of the progress of a machine.
func (j *journal) reportFor(machine *v1alpha1.Machine) spi.Report {
	return func(step spi.Progress) {
		j.write(machine, note{corev1.EventTypeNormal, step.Reason, statustext.Fit(step.Message)})
	}
}

// failed records the failure of a call. Expected responses are omitted.
func (j *journal) failed(machine *v1alpha1.Machine, err error, source machineclass.KubeconfigSource) {
	if meaningOf(err).failure() {
		e := completed(err, source)
		j.write(machine, note{corev1.EventTypeWarning, e.Reason, statustext.FitWithRemedy(e.Message, e.Remedy)})
	}
}

// write omits Machines without a UID: machine-controller-manager sends them for orphans, which have
// no Machine.
func (j *journal) write(machine *v1alpha1.Machine, n note) {
	if j.events != nil && machine != nil && machine.UID != "" && j.isNew(machine.UID, n) {
		j.events.Event(machine, n.eventType, n.reason, n.message)
	}
}

func (j *journal) isNew(machine types.UID, n note) bool {
	j.mu.Lock()
	defer j.mu.Unlock()

	if last, known := j.last.Get(machine); known && last == n {
		return false
	}

	j.last.Add(machine, n)

	return true
}

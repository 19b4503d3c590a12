package providercluster

import (
	"encoding/json"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

const (
	// closeAfter drops the files of machines that are no longer asked about.
	closeAfter = 10 * time.Minute
	// maxFinding bounds what is kept of one machine, and maxFindings of all, in bytes of JSON. A machine with its pod, disks and fifty events
	// has 150 KiB. What is larger is looked at once, and not kept.
	maxFinding, maxFindings = 512 << 10, 16 << 20
	// maxFiles bounds the machines with a file. A server may give a machine another identity each time.
	maxFiles = 10_000
)

// files remember, of each machine that takes long, what was found of it and what was reported. Losing them, on a restart, is
// harmless.
type files struct {
	clock clock.PassiveClock

	mu       sync.Mutex
	machines map[types.UID]*file
	// kept is how much all findings have, in bytes.
	kept int
}

type file struct {
	// found is what was read at a step, when it was asked for last.
	found finding
	size  int
	step  step
	asked time.Time
	// reported is the reason of the failure that was reported last.
	reported string
	touched  time.Time
}

func newFiles(c clock.PassiveClock) *files {
	return &files{clock: c, machines: map[types.UID]*file{}}
}

// of returns a machine's file. The caller holds the lock.
func (f *files) of(machine types.UID) *file {
	now := f.clock.Now()
	for other, file := range f.machines {
		if now.Sub(file.touched) > closeAfter {
			f.kept -= file.size
			delete(f.machines, other)
		}
	}

	if f.machines[machine] == nil {
		f.machines[machine] = &file{}
	}

	f.machines[machine].touched = now

	return f.machines[machine]
}

// due says whether evidence may be read, and takes note that it is.
func (f *files) due(machine types.UID, every time.Duration) bool {
	f.mu.Lock()
	defer f.mu.Unlock()

	file, now := f.of(machine), f.clock.Now()
	if now.Sub(file.asked) < every {
		return false
	}

	file.asked = now

	return true
}

func (f *files) keep(machine types.UID, at step, found finding) {
	f.mu.Lock()
	defer f.mu.Unlock()

	file, size := f.of(machine), found.size()
	if size > maxFinding {
		found, size = finding{}, 0
	}

	f.kept += size - file.size
	file.found, file.size, file.step = found, size, at

	if f.kept > maxFindings || len(f.machines) > maxFiles {
		f.forget()
	}
}

// forget forgets everything, which costs a look at each machine that takes long.
func (f *files) forget() {
	f.kept, f.machines = 0, map[types.UID]*file{}
}

// size returns how much there is of what was read, in bytes of JSON.
func (f *finding) size() int {
	text, err := json.Marshal(f)
	if err != nil {
		return maxFinding + 1
	}

	return len(text)
}

// found returns what was read at this step, and when.
func (f *files) found(machine types.UID, at step) (finding, time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()

	file := f.of(machine)
	if file.step != at {
		return finding{}, time.Time{}
	}

	return file.found, file.asked
}

func (f *files) report(machine types.UID, reason string) {
	f.mu.Lock()
	defer f.mu.Unlock()

	f.of(machine).reported = reason
}

func (f *files) reported(machine types.UID) string {
	f.mu.Lock()
	defer f.mu.Unlock()

	return f.of(machine).reported
}

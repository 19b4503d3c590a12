// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providercluster

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/caller"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/records"
)

// record is what is remembered about a VirtualMachine.
type record struct {
	// uid is the UID of the VirtualMachine. A record is not valid for another one of the same name.
	uid types.UID
	// related is the related evidence of a machine at a step, in addition to what each call reads: it
	// takes several requests. memory is its size in bytes.
	related evidence
	step    step
	memory  int64
	// reported is the reason of the last reported failure. A new one is reported immediately.
	reported string
	// sightings are those of the VirtualMachine as an orphan. It is deleted only after a grace period.
	sightings map[caller.ID]sightings
}

func (r *record) dropRelated() {
	r.related = evidence{}
	r.memory = 0
}

// machineKey identifies the record of a VirtualMachine. Records are found by name, so that a server
// that returns another UID each time has no more records than the caller has machines.
type machineKey struct {
	name records.Key
	uid  types.UID
}

func keyOf(c *providerapi.Clients, name string, uid types.UID) machineKey {
	return machineKey{name: records.Key(c.Server + "/" + c.Path(name)), uid: uid}
}

// use calls a function with the record of a VirtualMachine, which it may change. A new record has only
// a UID.
func (m *Machines) use(key machineKey, use func(*record)) {
	m.records.Use(key.name, func(r *record) {
		if r.uid != key.uid {
			*r = record{uid: key.uid}
		}

		use(r)
	})
}

// peek is like use, but does nothing without a record, and does not extend how long the record is kept.
func (m *Machines) peek(key machineKey, use func(*record)) {
	m.records.Peek(key.name, func(r *record) {
		if r.uid == key.uid {
			use(r)
		}
	})
}

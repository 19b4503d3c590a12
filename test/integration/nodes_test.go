package integration

import (
	"fmt"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane"
)

const (
	// reserved is the taint key of nodes reserved for tests that need them.
	reserved = "reserved.example.com/node"

	mortalOfTheTable, mortalOfTheDeletion = "provider-mortal-0", "provider-mortal-1"

	// emulatedZone has no hardware virtualization.
	emulatedZone = "zone-emulated"

	// idleZone is a zone in which no pod runs, since no pod tolerates idleTaint.
	idleZone, idleTaint = "zone-idle", "reserved.example.com/idle"
)

// nodes are the provider nodes: the default ones, two that are killed by one test each, one with a
// lot of memory, one without KVM, and one that stays empty.
func nodes() []dataplane.Node {
	return append(dataplane.DefaultNodes(),
		dataplane.Node{Name: mortalOfTheTable, Region: "local", Zone: "zone-a", CPU: "16", Memory: "64Gi", Taint: reserved},
		dataplane.Node{Name: mortalOfTheDeletion, Region: "local", Zone: "zone-a", CPU: "16", Memory: "64Gi", Taint: reserved},
		dataplane.Node{Name: "provider-large", Region: "local", Zone: "zone-a", CPU: "16", Memory: "256Gi", Taint: reserved},
		dataplane.Node{Name: "provider-emulated", Region: "local", Zone: emulatedZone, CPU: "16", Memory: "64Gi", WithoutKVM: true},
		dataplane.Node{Name: "provider-idle", Region: "local", Zone: idleZone, CPU: "16", Memory: "64Gi", Taint: idleTaint},
	)
}

// tolerating returns the part of a machine's template that tolerates reserved nodes.
func tolerating() string {
	return fmt.Sprintf(`"tolerations":[{"key":%q,"operator":"Exists"}]`, reserved)
}

// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package suite

import "github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/kubelet"

const (
	// Reserved is the taint key of nodes reserved for tests that need them.
	Reserved = "reserved.example.com/node"

	// MortalNodeOfTheTable is killed by the tests of the failure table.
	MortalNodeOfTheTable = "provider-mortal-0"
	// MortalNodeOfTheDeletion is killed under a machine that is then deleted.
	MortalNodeOfTheDeletion = "provider-mortal-1"

	// EmulatedZone has no hardware virtualization.
	EmulatedZone = "zone-emulated"

	// IdleZone is a zone in which no pod runs, since no pod tolerates IdleTaint.
	IdleZone = "zone-idle"
	// IdleTaint is the taint key of the nodes in IdleZone.
	IdleTaint = "reserved.example.com/idle"
)

// MortalNodesAlways and MortalNodesOnce are pairs of nodes of which one survives the accidents of a machine.
func MortalNodesAlways() []string { return []string{"provider-mortal-2", "provider-mortal-3"} }

// MortalNodesOnce are those of machines that KubeVirt does not start again.
func MortalNodesOnce() []string { return []string{"provider-mortal-4", "provider-mortal-5"} }

// nodes are the provider nodes: the default ones, those that are killed by one test each, one with a
// lot of memory, one without KVM, and one that stays empty.
func nodes() []kubelet.Node {
	all := kubelet.DefaultNodes()
	for _, name := range append(MortalNodesAlways(), MortalNodesOnce()...) {
		all = append(all, kubelet.Node{Name: name, Region: "local", Zone: "zone-a", CPU: "16", Memory: "64Gi", Taint: Reserved})
	}

	return append(all,
		kubelet.Node{Name: MortalNodeOfTheTable, Region: "local", Zone: "zone-a", CPU: "16", Memory: "64Gi", Taint: Reserved},
		kubelet.Node{Name: MortalNodeOfTheDeletion, Region: "local", Zone: "zone-a", CPU: "16", Memory: "64Gi", Taint: Reserved},
		kubelet.Node{Name: "provider-large", Region: "local", Zone: "zone-a", CPU: "16", Memory: "256Gi", Taint: Reserved},
		kubelet.Node{Name: "provider-emulated", Region: "local", Zone: EmulatedZone, CPU: "16", Memory: "64Gi", WithoutKVM: true},
		kubelet.Node{Name: "provider-idle", Region: "local", Zone: IdleZone, CPU: "16", Memory: "64Gi", Taint: IdleTaint},
	)
}

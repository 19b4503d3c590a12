// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import "github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"

// unknownNetwork is a part of the error about a network that does not exist. Since 1.9,
// virt-controller does not look up networks (gate ExternalNetResourceInjection): Multus fails.
var unknownNetwork = harness.PerKubeVirt[complaint]{
	"1.6": "failed to locate network attachment definition",
	"1.7": "failed to locate network attachment definition",
	"1.8": "failed to locate network attachment definition",
	"1.9": "cannot find a network-attachment-definition",
}

// unknownStrategy is a part of the error about an unknown updateVolumesStrategy. 1.6 reads the
// strategy only when the volumes of a running machine have changed (handleVolumeUpdateRequest in
// pkg/virt-controller/watch/vm/vm.go).
var unknownStrategy = harness.PerKubeVirt[complaint]{
	"1.6": accepted,
	"1.7": "not recognized",
	"1.8": "not recognized",
	"1.9": "not recognized",
}

// refusedAtOnce are parts of the errors about specs that only other versions accept, by the name in
// TestAsynchronousFailuresAreRefused
// (pkg/virt-api/webhooks/validating-webhook/admitters/vmi-create-admitter.go).
var refusedAtOnce = harness.PerKubeVirt[map[string]string]{
	"1.6": {"memory without unit": "must be greater than or equal to 1M"},
	"1.7": nil,
	"1.8": nil,
	"1.9": nil,
}

// generatedIDs are the fields of a VirtualMachine's firmware that each KubeVirt sets
// (pkg/virt-api/webhooks/mutating-webhook/mutators/vm-mutator.go).
var generatedIDs = harness.PerKubeVirt[[]string]{
	"1.6": {"uuid"},
	"1.7": {"serial", "uuid"},
	"1.8": {"serial", "uuid"},
	"1.9": {"serial", "uuid"},
}

// addedAnnotations are those that each KubeVirt adds to the template of a VirtualMachine
// (kubevirt/kubevirt#17029, which 1.6.6 and 1.7.2 have too).
var addedAnnotations = harness.PerKubeVirt[map[string]string]{
	"1.6": nil,
	"1.7": nil,
	"1.8": {"kubevirt.io/pci-topology-version": "v3"},
	"1.9": {"kubevirt.io/pci-topology-version": "v3"},
}

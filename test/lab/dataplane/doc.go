// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package dataplane simulates the components that need containers or hypervisors, which the lab
// does not have: the provider cluster's kubelets, KubeVirt's virt-handler, CDI's workers, a CSI driver
// (provisioner, resizer, deleter), and the guests, whose kubelets join the target cluster. Each has a package.
//
// It is called by the lab (test/lab/environment), which runs the real control planes around it, and
// communicates with them only through the Kubernetes API. Each part is a level-triggered controller
// that derives its actions from the timestamps of the API objects, so that a restart of the
// simulator loses no state. Latencies and faults are declared by annotations and labels on the
// provider cluster's objects (package behaviour). The package must know neither the driver nor
// machine-controller-manager: it treats all VirtualMachineInstances alike.
package dataplane

// Package dataplane simulates what a lab without containers and without hypervisors cannot have: the provider cluster's
// kubelets, KubeVirt's virt-handler, a CSI driver (provisioner, resizer, deleter), and the guests, whose kubelets join
// the target cluster.
//
// It is called by the lab (test/lab/environment), which runs the real control planes around it, and it speaks to them
// through the Kubernetes API only. Each part is a level-triggered controller that derives what is due from the
// timestamps of the API objects, so that a restart of the simulator forgets nothing. Latencies and faults are declared
// by annotations and labels on the provider cluster's objects (see behaviour.go). It must know neither the driver nor
// machine-controller-manager: what it does for a VirtualMachineInstance it does for anybody's.
package dataplane

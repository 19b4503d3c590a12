// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"maps"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

const (
	// LabelMachine is the name of the Machine, on every object of a machine.
	LabelMachine = "kubevirt.machine.gardener.cloud/machine"
	// labelMachineDeployment is the name of the MachineDeployment, on every object of a machine.
	// The scheduler spreads the machines of a MachineDeployment by this label.
	labelMachineDeployment = "kubevirt.machine.gardener.cloud/machine-deployment"

	// labelCCMCluster and labelCCMRole select a shoot's launcher pods for the load balancers of
	// KubeVirt's cloud-controller-manager (kubevirt/cloud-provider-kubevirt,
	// pkg/provider/loadbalancer.go).
	labelCCMCluster = "cluster.x-k8s.io/cluster-name"
	labelCCMRole    = "cluster.x-k8s.io/role"
	ccmRoleWorker   = "worker"
)

// objectLabels returns the labels of every object of a machine: the tags,
// and the labels that identify the machine.
func objectLabels(in *spi.CreateMachineInput) map[string]string {
	set := maps.Clone(in.Spec.Tags)
	set[LabelMachine] = in.Name
	set[v1alpha1.LabelManagedBy] = v1alpha1.ManagedBy

	if in.Deployment != "" {
		set[labelMachineDeployment] = in.Deployment
	}

	if _, tag := set[v1alpha1.LabelWorkerPool]; !tag && in.WorkerPool != "" {
		set[v1alpha1.LabelWorkerPool] = in.WorkerPool
	}

	return set
}

// templateLabels returns the labels of the virtual machine's pod.
func templateLabels(in *spi.CreateMachineInput) map[string]string {
	set := objectLabels(in)
	set[labelCCMCluster] = in.Identity().Cluster
	set[labelCCMRole] = ccmRoleWorker

	return set
}

// Owns reports whether an object with these labels has this identity. Only the two tags are
// compared: the predecessor's objects have no other labels.
func Owns(id spi.Identity, have map[string]string) bool {
	return id.Valid() &&
		have[v1alpha1.TagCluster] == id.Cluster && have[v1alpha1.TagRole] == id.Role
}

// Selector selects the VirtualMachines with this identity, which must be valid.
func Selector(id spi.Identity) string {
	return labels.Set{v1alpha1.TagCluster: id.Cluster, v1alpha1.TagRole: id.Role}.String()
}

// MachineSelector selects the objects of one machine by its label. The identity must be valid. It
// returns false if the name is not a valid label value, such as a long name from the predecessor:
// then no object has the label, and a selector without it would select all machines of the shoot.
func MachineSelector(id spi.Identity, machine string) (string, bool) {
	if machine == "" || len(validation.IsValidLabelValue(machine)) > 0 {
		return "", false
	}

	return labels.Set{v1alpha1.TagCluster: id.Cluster, v1alpha1.TagRole: id.Role, LabelMachine: machine}.String(), true
}

package render

import (
	"maps"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

const (
	// LabelMachine names, on every object of a machine, the Machine.
	LabelMachine = "kubevirt.machine.gardener.cloud/machine"
	// LabelMachineDeployment names, on every object of a machine, the MachineDeployment; machines of one are spread.
	LabelMachineDeployment = "kubevirt.machine.gardener.cloud/machine-deployment"
	// LabelManagedBy is the recommended Kubernetes label for the tool that manages an object.
	LabelManagedBy = "app.kubernetes.io/managed-by"
	// ManagedBy is the driver's value of LabelManagedBy.
	ManagedBy = "machine-controller-manager-provider-kubevirt"

	// labelCCMCluster and labelCCMRole select a shoot's launcher pods for the load balancers of KubeVirt's
	// cloud-controller-manager (kubevirt/cloud-provider-kubevirt, pkg/provider/loadbalancer.go).
	labelCCMCluster = "cluster.x-k8s.io/cluster-name"
	labelCCMRole    = "cluster.x-k8s.io/role"
	ccmRoleWorker   = "worker"
)

// Labels returns the labels of every object of a machine: the tags, and who and what it is.
func Labels(in *spi.CreateMachineInput) map[string]string {
	set := maps.Clone(in.Spec.Tags)
	set[LabelMachine] = in.Name
	set[LabelManagedBy] = ManagedBy

	if in.Deployment != "" {
		set[LabelMachineDeployment] = in.Deployment
	}

	if _, tag := set[v1alpha1.LabelWorkerPool]; !tag && in.WorkerPool != "" {
		set[v1alpha1.LabelWorkerPool] = in.WorkerPool
	}

	return set
}

// templateLabels returns the labels of the virtual machine's pod.
func templateLabels(in *spi.CreateMachineInput) map[string]string {
	set := Labels(in)
	set[labelCCMCluster] = in.Identity().Cluster
	set[labelCCMRole] = ccmRoleWorker

	return set
}

// Owns says whether labels are those of an object with this identity. Both tags decide, nothing else: the predecessor's
// objects carry no more.
func Owns(id spi.Identity, have map[string]string) bool {
	return id.Valid() &&
		have[v1alpha1.TagCluster] == id.Cluster && have[v1alpha1.TagRole] == id.Role
}

// Selector selects the VirtualMachines with this identity, which must be valid.
func Selector(id spi.Identity) string {
	return labels.Set{v1alpha1.TagCluster: id.Cluster, v1alpha1.TagRole: id.Role}.String()
}

// MachineSelector selects the objects of one machine by its label. The identity must be valid. It returns false if the name is no label
// value, as a long one of the predecessor: then no object has the label, and a selector without it would select the whole shoot's.
func MachineSelector(id spi.Identity, machine string) (string, bool) {
	if machine == "" || len(validation.IsValidLabelValue(machine)) > 0 {
		return "", false
	}

	return labels.Set{v1alpha1.TagCluster: id.Cluster, v1alpha1.TagRole: id.Role, LabelMachine: machine}.String(), true
}

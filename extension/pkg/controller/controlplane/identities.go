package controlplane

import (
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/identity"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/kubevirt"
)

// identities are the accounts in the provider cluster, with the requests that each program sends.
// extension/kubernetes/provider-namespace grants the same to the credentials of the shoot.
var identities = []identity.Identity{
	{
		Program: kubevirt.CloudControllerManagerName,
		// cloud-provider-kubevirt v0.6.0: pkg/provider.
		Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{"kubevirt.io"}, Resources: []string{"virtualmachineinstances"}, Verbs: []string{"get", "list"}},
			{APIGroups: []string{""}, Resources: []string{"services"}, Verbs: []string{"get", "create", "update", "delete"}},
		},
	},
	{
		Program: kubevirt.CSIControllerName,
		// csi-driver 27b52aa2: pkg/kubevirt/client.go. Expansion also gets PersistentVolumes, which are
		// not in a namespace: see the ClusterRole in extension/kubernetes/provider-namespace.
		Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{"cdi.kubevirt.io"}, Resources: []string{"datavolumes"}, Verbs: []string{"get", "create", "delete"}},
			{APIGroups: []string{"kubevirt.io"}, Resources: []string{"virtualmachines"}, Verbs: []string{"get"}},
			{APIGroups: []string{"kubevirt.io"}, Resources: []string{"virtualmachineinstances"}, Verbs: []string{"get", "list"}},
			{
				APIGroups: []string{"subresources.kubevirt.io"},
				// The driver's own manifests lack the last one: it detaches a volume that is no longer in
				// the VirtualMachine, but still in its instance.
				Resources: []string{"virtualmachines/addvolume", "virtualmachines/removevolume", "virtualmachineinstances/removevolume"},
				Verbs:     []string{"update"},
			},
			{APIGroups: []string{"snapshot.storage.k8s.io"}, Resources: []string{"volumesnapshots"}, Verbs: []string{"get", "list", "create", "delete"}},
			{APIGroups: []string{""}, Resources: []string{"persistentvolumeclaims"}, Verbs: []string{"get", "patch"}},
		},
	},
}

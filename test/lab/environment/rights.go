package environment

import (
	"bytes"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	manifests "github.com/gardener/machine-controller-manager-provider-kubevirt/kubernetes"
)

// Where rights are shipped: the driver's in its namespace of the provider cluster, and what evacuation adds to it there, and to
// machine-controller-manager's in the control cluster.
const (
	driverManifest             = "provider-namespace/rbac.yaml"
	evacuationManifest         = "evacuation/provider-namespace/rbac.yaml"
	evacuationMachinesManifest = "evacuation/control-namespace/rbac.yaml"
)

// shippedRules returns the rules of the Role in a shipped manifest.
func shippedRules(manifest string) ([]rbacv1.PolicyRule, error) {
	raw, err := manifests.Manifests.ReadFile(manifest)
	if err != nil {
		return nil, fmt.Errorf("read shipped rights: %w", err)
	}
	for document := range bytes.SplitSeq(raw, []byte("\n---\n")) {
		var role rbacv1.Role
		if err := yaml.Unmarshal(document, &role); err != nil {
			return nil, fmt.Errorf("read %s: %w", manifest, err)
		}
		if role.Kind == "Role" {
			return role.Rules, nil
		}
	}
	return nil, fmt.Errorf("no Role in %s", manifest)
}

// controlRules are those of machine-controller-manager and its sidecar in the shoot's namespace of the control cluster, as
// Gardener grants them.
func controlRules() []rbacv1.PolicyRule {
	machines := rbacv1.PolicyRule{
		APIGroups: []string{"machine.sapcloud.io"}, Verbs: []string{"*"},
		Resources: []string{
			"machineclasses", "machineclasses/status", "machinedeployments", "machinedeployments/status", "machinedeployments/scale",
			"machines", "machines/status", "machinesets", "machinesets/status",
		},
	}
	return []rbacv1.PolicyRule{
		machines,
		rule("", "secrets", "*"), // it sets finalizers
		{APIGroups: []string{"", "events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"get", "list", "create", "patch", "update"}},
		rule("coordination.k8s.io", "leases", "create", "get", "watch", "update"),
	}
}

// targetRules are those of both in the target cluster.
func targetRules() []rbacv1.PolicyRule {
	everything := func(group string, resources ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: []string{"*"}}
	}
	return []rbacv1.PolicyRule{
		everything("", "nodes", "nodes/status", "endpoints", "replicationcontrollers", "pods", "persistentvolumes", "persistentvolumeclaims"),
		rule("", "pods/eviction", "create"),
		everything("apps", "daemonsets", "deployments", "replicasets", "statefulsets"),
		everything("batch", "jobs", "cronjobs"),
		rule("policy", "poddisruptionbudgets", "get", "list", "watch"),
		rule("storage.k8s.io", "volumeattachments", "get", "list", "watch", "delete"),
	}
}

// bootstrapRules let the sidecar manage bootstrap tokens in the target's kube-system.
func bootstrapRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{rule("", "secrets", "create", "delete", "get", "list")}
}

func rule(group, resource string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
}

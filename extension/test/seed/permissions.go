// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package seed

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Permissions are the requests that an account may send to a cluster, and those that it sent. A request is
// verb, resource with group and subresource, and the name of the object if the permission has one.
type Permissions struct {
	Granted, Used, Denied sets.Set[string]
	// Requests is the number of requests.
	Requests int
}

// Unused returns the granted permissions that no request needed.
func (p *Permissions) Unused() []string { return sets.List(p.Granted.Difference(p.Used)) }

// Permissions returns the permissions of a ServiceAccount in the seed, and their use since the start of
// the seed, from the audit log of its API server. Permissions of all accounts are not part of it.
func (s *Seed) Permissions(ctx context.Context, namespace, account string) (*Permissions, error) {
	return permissionsIn(ctx, s.Client, s.state.ControlKubeconfig, namespace, account)
}

// ShootPermissions returns those of an account of a program in the seed, in the cluster of the shoots' Nodes.
func (s *Seed) ShootPermissions(ctx context.Context, account string) (*Permissions, error) {
	return permissionsIn(ctx, s.Target, s.state.TargetKubeconfig, metav1.NamespaceSystem, account)
}

// ProviderPermissions returns those of a ServiceAccount in the provider cluster.
func (s *Seed) ProviderPermissions(ctx context.Context, namespace, account string) (*Permissions, error) {
	return permissionsIn(ctx, s.Provider, s.state.ProviderKubeconfig, namespace, account)
}

// GardenPermissions returns those of a ServiceAccount in the virtual garden cluster.
func (s *Seed) GardenPermissions(ctx context.Context, namespace, account string) (*Permissions, error) {
	return permissionsIn(ctx, s.Garden, s.gardenKubeconfig, namespace, account)
}

func permissionsIn(ctx context.Context, cluster client.Client, kubeconfig, namespace, account string) (*Permissions, error) {
	p := &Permissions{Granted: sets.New[string](), Used: sets.New[string](), Denied: sets.New[string]()}

	roles, err := rolesOf(ctx, cluster, namespace, account)
	if err != nil {
		return nil, err
	}

	for _, rules := range roles {
		p.grant(rules)
	}

	return p, eachRequest(kubeconfig, func(r *request) {
		if r.User.Username == "system:serviceaccount:"+namespace+":"+account {
			p.add(r, roles)
		}
	})
}

// grant adds the permissions of the rules of a role.
func (p *Permissions) grant(rules []rbacv1.PolicyRule) {
	for _, rule := range rules {
		names := rule.ResourceNames
		if len(names) == 0 {
			names = []string{""}
		}

		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					for _, name := range names {
						p.Granted.Insert(permission(verb, resource, group, name))
					}
				}
			}
		}
	}
}

func permission(verb, resource, group, name string) string {
	return strings.TrimSpace(verb + " " + strings.TrimSuffix(resource+"."+group, ".") + " " + name)
}

// allowedBy extracts the role, as in rolesOf, from RBAC's reason for a decision.
var allowedBy = regexp.MustCompile(`of ((?:Cluster)?Role) "([^"]+)"`)

// add adds the use of a permission of one of the roles.
func (p *Permissions) add(r *request, roles map[string][]rbacv1.PolicyRule) {
	p.Requests++

	resource := r.ObjectRef.Resource
	if r.ObjectRef.Subresource != "" {
		resource += "/" + r.ObjectRef.Subresource
	}

	all := permission(r.Verb, resource, r.ObjectRef.APIGroup, "")
	named := permission(r.Verb, resource, r.ObjectRef.APIGroup, r.ObjectRef.Name)

	if r.Annotations["authorization.k8s.io/decision"] == "forbid" {
		p.Denied.Insert(named + " " + r.URI)

		return
	}

	role := allowedBy.FindStringSubmatch(r.Annotations["authorization.k8s.io/reason"])
	if role == nil || roles[role[1]+" "+role[2]] == nil {
		return // A role of all accounts.
	}

	if p.Granted.Has(named) {
		p.Used.Insert(named)
	} else {
		p.Used.Insert(all)
	}
}

// rolesOf returns the rules of the ClusterRoles and Roles of an account, by the kind and the name of the role.
func rolesOf(ctx context.Context, cluster client.Client, namespace, account string) (map[string][]rbacv1.PolicyRule, error) {
	roles := map[string][]rbacv1.PolicyRule{}
	subject := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: account}

	clusterBindings := &rbacv1.ClusterRoleBindingList{}
	bindings := &rbacv1.RoleBindingList{}
	if err := cluster.List(ctx, clusterBindings); err != nil {
		return nil, err
	}

	if err := cluster.List(ctx, bindings); err != nil {
		return nil, err
	}

	for _, b := range clusterBindings.Items {
		if slices.Contains(b.Subjects, subject) {
			role := &rbacv1.ClusterRole{}
			if err := cluster.Get(ctx, client.ObjectKey{Name: b.RoleRef.Name}, role); err != nil {
				return nil, err
			}

			roles["ClusterRole "+role.Name] = role.Rules
		}
	}

	for _, b := range bindings.Items {
		if slices.Contains(b.Subjects, subject) {
			role := &rbacv1.Role{}
			if err := cluster.Get(ctx, client.ObjectKey{Namespace: b.Namespace, Name: b.RoleRef.Name}, role); err != nil {
				return nil, fmt.Errorf("get the Role of RoleBinding %s/%s: %w", b.Namespace, b.Name, err)
			}

			roles["Role "+role.Name] = role.Rules
		}
	}

	return roles, nil
}

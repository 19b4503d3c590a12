// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package infrastructure

import (
	"context"
	"fmt"
	"slices"
	"strings"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	rbacvalidation "k8s.io/component-helpers/auth/rbac/validation"

	api "github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/apis/kubevirt/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/extension/pkg/providercluster"
)

// rule allows verbs on a resource of an API group.
func rule(group, resource string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
}

// permissions returns the permissions that the shoot needs. It contains only samples of those of the
// driver, cloud-controller-manager and the CSI driver: the manifest that grants one grants all.
func (f *flow) permissions() []rbacv1.PolicyRule {
	needed := []rbacv1.PolicyRule{
		rule("kubevirt.io", "virtualmachines", "create", "delete", "list"),
		rule("", "secrets", "create"),
		rule("cdi.kubevirt.io", "datavolumes", "list"),
	}

	if f.hasLoadBalancers {
		needed = append(needed, rule("", "services", "create"))
	}

	if f.hasVolumes() {
		needed = append(needed, rule("subresources.kubevirt.io", "virtualmachines/addvolume", "update"),
			rule("subresources.kubevirt.io", "virtualmachineinstances/removevolume", "update"))
	}

	if f.createsNamespace() {
		needed = append(needed, rule("", "namespaces", "get", "create", "delete"))
	}

	verbs := []string{"get", "list", "create", "update", "delete"}

	if len(f.config.Networks.TenantNetworks) > 0 {
		needed = append(needed, rule(providercluster.NetworkAttachmentDefinition.Group, "network-attachment-definitions", verbs...))
	}

	for _, t := range f.virtualNetworks() {
		if t == api.TenantNetworkOVN {
			needed = append(needed, rule(providercluster.UserDefinedNetwork.Group, "userdefinednetworks", verbs...))
		} else {
			needed = append(needed, rule(providercluster.Subnet.Group, "vpcs", verbs...), rule(providercluster.Subnet.Group, "subnets", verbs...))
		}
	}

	if f.config.Isolation != nil && f.config.Isolation.Enabled {
		needed = append(needed, rule("networking.k8s.io", "networkpolicies", verbs...))
	}

	return needed
}

// checkPermissions returns a fault if the account lacks permissions of the shoot.
func (f *flow) checkPermissions(ctx context.Context) ([]fault, error) {
	missing, err := f.missing(ctx, f.permissions())
	if err != nil || len(missing) == 0 {
		return nil, err
	}

	isOfKubeOVN := func(m string) bool { return strings.HasSuffix(m, " vpcs") || strings.HasSuffix(m, " subnets") }
	others := slices.DeleteFunc(slices.Clone(missing), isOfKubeOVN)
	ofKubeOVN := slices.DeleteFunc(missing, func(m string) bool { return !isOfKubeOVN(m) })

	var faults []fault
	if len(others) > 0 {
		faults = append(faults, unauthorized("in namespace "+f.namespace+" of the provider cluster; "+applyRoles, others))
	}

	if len(ofKubeOVN) > 0 {
		faults = append(faults, unauthorized("in the provider cluster; apply extension/kubernetes/kube-ovn", ofKubeOVN))
	}

	return faults, nil
}

func unauthorized(where string, missing []string) fault {
	return fault{gardencorev1beta1.ErrorInfraUnauthorized, credentialsPath(), fmt.Sprintf("the kubeconfig's user may not %s %s", strings.Join(missing, ", "), where)}
}

const applyRoles = "apply extension/kubernetes/provider-namespace, or extension/kubernetes/namespace-per-shoot for namespace.create"

// missing returns the permissions that the account lacks, as verb and resource. It reads all rules with the
// first request, and reviews those permissions that the rules lack: the rules are incomplete if the API server has
// an authorizer other than RBAC, and empty if the account may not read them.
func (f *flow) missing(ctx context.Context, needed []rbacv1.PolicyRule) ([]string, error) {
	if f.rules == nil {
		review := &authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: f.namespace}}
		if err := f.provider.Create(ctx, review); err != nil && !apierrors.IsForbidden(err) {
			return nil, fmt.Errorf("read the permissions of the account: %w", err)
		}

		f.rules = policyRules(review.Status.ResourceRules)
	}

	_, uncovered := rbacvalidation.Covers(f.rules, needed)

	var missing []string

	for _, r := range uncovered {
		allowed, err := f.isAllowed(ctx, r)
		if err != nil {
			return nil, err
		}

		if !allowed {
			missing = append(missing, r.Verbs[0]+" "+r.Resources[0])
		}
	}

	return missing, nil
}

func policyRules(rules []authorizationv1.ResourceRule) []rbacv1.PolicyRule {
	all := make([]rbacv1.PolicyRule, len(rules))
	for i, r := range rules {
		all[i] = rbacv1.PolicyRule{Verbs: r.Verbs, APIGroups: r.APIGroups, Resources: r.Resources, ResourceNames: r.ResourceNames}
	}

	return all
}

// isAllowed reviews a rule with one verb and one resource.
func (f *flow) isAllowed(ctx context.Context, r rbacv1.PolicyRule) (bool, error) {
	resource, subresource, _ := strings.Cut(r.Resources[0], "/")
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
		Namespace:   f.namespace,
		Verb:        r.Verbs[0],
		Group:       r.APIGroups[0],
		Resource:    resource,
		Subresource: subresource,
	}}}

	if err := f.provider.Create(ctx, review); err != nil {
		return false, fmt.Errorf("review the permissions of the account: %w", err)
	}

	return review.Status.Allowed, nil
}

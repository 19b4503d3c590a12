// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"sigs.k8s.io/yaml"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/kubernetes"
)

// TestProviderCluster_WorkloadIdentities requires the manifests of provider clusters to match the group of WorkloadIdentities.
func TestProviderCluster_WorkloadIdentities(t *testing.T) {
	t.Parallel()

	const group = "gardener:workloadidentities"

	example, err := os.ReadFile("../../../example/authentication-configuration.yaml")
	require.NoError(t, err)
	require.Contains(t, string(example), `"['`+group+`']"`)

	for file, matches := range map[string]string{"flowschema.yaml": "name: " + group + "\n", "worker-machines.yaml": "'" + group + "' in request.userInfo"} {
		raw, err := kubernetes.Manifests.ReadFile("provider-cluster/" + file)
		require.NoError(t, err)
		require.Contains(t, string(raw), matches, file)
	}
}

// TestIdentities_FlowSchema requires kubernetes/provider-cluster to give each request of the accounts its own priority:
// otherwise, load balancers and volumes wait behind the requests of other tenants.
func TestIdentities_FlowSchema(t *testing.T) {
	t.Parallel()

	raw, err := kubernetes.Manifests.ReadFile("provider-cluster/flowschema.yaml")
	require.NoError(t, err)

	_, document, found := strings.Cut(string(raw), "\n---\n")
	require.True(t, found)

	flow := &flowcontrolv1.FlowSchema{}
	require.NoError(t, yaml.UnmarshalStrict([]byte(document), flow))
	require.Len(t, flow.Spec.Rules, 1)

	accounts := flow.Spec.Rules[0].Subjects
	rules := flow.Spec.Rules[0].ResourceRules
	require.True(t, slices.ContainsFunc(accounts, func(s flowcontrolv1.Subject) bool {
		return s.ServiceAccount != nil && s.ServiceAccount.Name == flowcontrolv1.NameAll
	}), "the accounts have the technical ID in their names")

	has := func(values []string, value string) bool {
		return slices.Contains(values, value) || slices.Contains(values, flowcontrolv1.NameAll)
	}

	for _, account := range identities {
		for _, rule := range account.Rules {
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					require.True(t, slices.ContainsFunc(rules, func(r flowcontrolv1.ResourcePolicyRule) bool {
						return has(r.APIGroups, group) && has(r.Resources, resource) && has(r.Namespaces, "shoot-machines")
					}), "%s: %s of %q", account.Program, resource, group)
				}
			}
		}
	}
}

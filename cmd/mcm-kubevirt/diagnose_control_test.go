package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const leasePath = "/apis/coordination.k8s.io/v1/namespaces/shoot/leases/"

// justNow stands for the time of the response: a controller that runs keeps renewing its lease, and
// a slow test does not age it.
const justNow = "JUST-NOW"

// ago returns the time at the given age.
func ago(age time.Duration) string { return time.Now().Add(-age).UTC().Format(metav1.RFC3339Micro) }

// lease returns a Lease with the given time of its renewal.
func lease(name, renewed string) string {
	return fmt.Sprintf(`{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":%q,"namespace":"shoot"},
		"spec":{"holderIdentity":"pod-1","leaseDurationSeconds":15,"renewTime":%q}}`, name, renewed)
}

// leased adds the leases of both controllers, with the given times of their renewals.
func (c cluster) leased(managerRenewed, controllerRenewed string) cluster {
	c[leasePath+manager], c[leasePath+machineController] = lease(manager, managerRenewed), lease(machineController, controllerRenewed)

	return c
}

// fresh returns a Machine without any trace of a controller.
func fresh(created, more string) string {
	return fmt.Sprintf(`{"apiVersion":"machine.sapcloud.io/v1alpha1","kind":"Machine","metadata":{"name":"m","namespace":"shoot","uid":"u","creationTimestamp":%q%s},
		"spec":{"class":{"kind":"MachineClass","name":"c"}}}`, created, more)
}

// diagnosed runs diagnose for the Machine m of a control cluster.
func diagnosed(t *testing.T, c cluster, args ...string) (d diagnosis, text string, code int) {
	t.Helper()

	args = append([]string{"diagnose", "--kubeconfig", c.control(t)}, args...)
	if !strings.Contains(strings.Join(args, " "), "--all") {
		args = append(args, "m")
	}

	text, err := run(t, "", args...)
	requireFit(t, text)

	out, again := run(t, "", append(args, "-o=json")...)
	require.Equal(t, exitCode(err), exitCode(again))
	require.NotContains(t, text+out, "t0p-secret")

	var all diagnoses

	require.NoError(t, json.Unmarshal([]byte(out), &all))
	require.Len(t, all.Machines, 1)

	return all.Machines[0], text, exitCode(err)
}

// provided returns the kubeconfig of a provider cluster on which the machine m is scheduled.
func provided(t *testing.T) string {
	t.Helper()

	vm := strings.Replace(failing(t, "Starting", "", ""), `"type":"Failure"`, `"type":"Other"`, 1)

	return cluster{vmPath + "m": vm}.provider(t)
}

func TestDiagnoseControllers(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		reason string
		change func(cluster)
		// want is the reason of the cause; empty if nothing is wrong.
		want string
		text []string
	}{
		"Running": {
			reason: "both leases are fresh", change: func(c cluster) { c.leased(justNow, justNow) },
			text: []string{"machine-controller: running, lease renewed", "NO CAUSE FOUND"},
		},
		"SidecarDead": {
			reason: "its lease is old", change: func(c cluster) { c.leased(justNow, ago(5*time.Minute)) }, want: "ControllerDown",
			text: []string{
				"CAUSE ControllerDown", "machine-controller: NOT RUNNING, lease renewed 5m", "machine-controller is not running: its lease shoot/machine-controller was renewed 5m",
				"repair container machine-controller-manager-provider-kubevirt of Deployment machine-controller-manager", "as soon as the controller is running again",
				"kubectl --namespace=shoot logs deployment/machine-controller-manager --container=machine-controller-manager-provider-kubevirt --previous",
			},
		},
		"ManagerDead": {
			reason: "its lease is old", change: func(c cluster) { c.leased(ago(5*time.Minute), justNow) }, want: "ControllerDown",
			text: []string{"machine-controller-manager is not running", "no MachineDeployment or MachineSet is reconciled"},
		},
		"SidecarNeverRan": {
			reason: "it has no lease, and the Machine is not reconciled", change: func(c cluster) {
				c.leased(justNow, justNow)
				delete(c, leasePath+machineController)
				c[mcPath+"machines/m"] = fresh(ago(time.Hour), "")
			}, want: "MachineNotReconciled", text: []string{"machine-controller: unknown, no lease found", "no lease shows that it is running"},
		},
		"NoLeaderElection": {
			reason: "there are no leases, and the Machine was reconciled", change: func(cluster) {},
			text: []string{"machine-controller: unknown, no lease found", "NO CAUSE FOUND", "a controller updated the Machine's status"},
		},
		"NotReconciled": {
			reason: "no controller has reconciled the Machine", change: func(c cluster) { c[mcPath+"machines/m"] = fresh(ago(5*time.Hour), "") }, want: "MachineNotReconciled",
			text: []string{"has not reconciled the Machine since its creation 5h", "none: no controller has updated", "--namespace=shoot"},
		},
		"JustCreated": {reason: "it may be taken up yet", change: func(c cluster) { c[mcPath+"machines/m"] = fresh(justNow, "") }},
		"TakenUp": {
			reason: "the finalizer is a sign of life", change: func(c cluster) {
				c[mcPath+"machines/m"] = fresh(ago(time.Hour), `,"finalizers":["`+controllerFinalizer+`"]`)
			},
		},
		"NoClass": {
			reason: "machine-controller-manager skips the Machine", change: func(c cluster) { delete(c, mcPath+"machineclasses/c") }, want: "MachineClassNotFound",
			text: []string{"MachineClass shoot/c, which the Machine refers to, does not exist", "when the MachineClass is created"},
		},
		"NoSecret": {
			reason: "machine-controller-manager hands over no kubeconfig", change: func(c cluster) { delete(c, "/api/v1/namespaces/shoot/secrets/s") }, want: "ClassSecretNotFound",
			text: []string{
				"Secret shoot/s does not exist", "shoot/s: NOT FOUND", "create the Secret in namespace shoot with the keys kubeconfig and userData", "InvalidArgument",
				"retries 3m after each failure; to retry now", `kubectl --namespace=shoot annotate machineclass c --overwrite kubevirt.machine.gardener.cloud/retry="$(date +%s)"`,
			},
		},
		"SecretElsewhere": {
			reason: "machine-controller-manager watches one namespace", change: func(c cluster) {
				c[mcPath+"machineclasses/c"] = strings.Replace(shootClass, `"name":"s","namespace":"shoot"`, `"name":"s","namespace":"other"`, 1)
				c["/api/v1/namespaces/other/secrets/s"] = c["/api/v1/namespaces/shoot/secrets/s"]
			}, want: "ClassSecretNotFound", text: []string{"other/s: NOT VISIBLE to machine-controller-manager", "correct secretRef and credentialsSecretRef"},
		},
		"Deleting": {
			reason: "the class's annotation does not reach it", change: func(c cluster) {
				delete(c, "/api/v1/namespaces/shoot/secrets/s")
				c[mcPath+"machines/m"] = fresh(ago(time.Hour), `,"deletionTimestamp":"2026-01-02T03:04:05Z","finalizers":["x"]`)
			}, want: "ClassSecretNotFound",
			text: []string{"retries 10m after each failure", "kubectl --namespace=shoot rollout restart deployment/machine-controller-manager"},
		},
		"Both": {
			reason: "what is to be repaired first comes first", change: func(c cluster) {
				c.leased(justNow, ago(time.Hour))
				delete(c, "/api/v1/namespaces/shoot/secrets/s")
			}, want: "ControllerDown", text: []string{"CAUSE ControllerDown", "CAUSE ClassSecretNotFound"},
		},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			shoot := shootWith(provided(t))
			tc.change(shoot)

			d, text, code := diagnosed(t, shoot, "--unschedulable-grace=1s")
			for _, want := range tc.text {
				require.Contains(t, strings.Join(strings.Fields(text), " "), strings.Join(strings.Fields(want), " "), "%s\n%s", tc.reason, text)
			}

			if tc.want == "" {
				require.Equal(t, resultNothingWrong, d.Result, "%s\n%s", tc.reason, text)
				require.Zero(t, code)

				return
			}

			require.Equal(t, exitInvalid, code, "%s\n%s", tc.reason, text)
			require.Equal(t, resultCauseFound, d.Result)
			require.Equal(t, tc.want, d.Cause.Reason)
			require.NotEmpty(t, d.Cause.Remedy)
		})
	}
}

// TestDiagnoseAll diagnoses all Machines of one namespace, and of all namespaces.
func TestDiagnoseAll(t *testing.T) {
	t.Parallel()

	shoot := shootWith(provided(t)).leased(justNow, justNow)
	list := `{"apiVersion":"machine.sapcloud.io/v1alpha1","kind":"MachineList","items":[` + shoot[mcPath+"machines/m"] + `]}`
	shoot[mcPath+"machines"], shoot["/apis/machine.sapcloud.io/v1alpha1/machines"] = list, list

	for _, flag := range []string{"--all", "--all-namespaces"} {
		d, _, code := diagnosed(t, shoot, flag)
		require.Zero(t, code)
		require.Equal(t, "m", d.Name)
		require.Equal(t, "shoot", d.Machine.Namespace)
	}

	shoot[mcPath+"machines"] = `{"apiVersion":"machine.sapcloud.io/v1alpha1","kind":"MachineList","items":[]}`
	_, err := run(t, "", "diagnose", "--kubeconfig", shoot.control(t), "--all")
	require.ErrorContains(t, err, "no Machine in namespace shoot")
}

// TestKubectlsHabits checks the flags and completions that users know from kubectl.
func TestKubectlsHabits(t *testing.T) {
	t.Parallel()

	shoot := shootWith(provided(t)).leased(justNow, justNow)
	shoot[mcPath+"machines"] = `{"apiVersion":"machine.sapcloud.io/v1alpha1","kind":"MachineList","items":[{"metadata":{"name":"m"}},{"metadata":{"name":"n"}}]}`
	shoot["/api/v1/namespaces"] = `{"apiVersion":"v1","kind":"NamespaceList","items":[{"metadata":{"name":"shoot"}}]}`
	file := shoot.control(t)

	for name, args := range map[string][]string{
		"short namespace": {"diagnose", "--kubeconfig", file, "-n", "shoot", "m"}, "context": {"diagnose", "--kubeconfig", file, "--context=c", "m"},
		"machine-controller-manager's name": {"diagnose", "--control-kubeconfig", file, "--namespace=shoot", "m"},
	} {
		out, err := run(t, "", args...)
		require.NoError(t, err, "%s\n%s", name, out)
	}

	for name, tc := range map[string]struct {
		args []string
		want []string
	}{
		"machines":       {[]string{"diagnose", "--kubeconfig", file, ""}, []string{"m", "n"}},
		"other machines": {[]string{"diagnose", "--kubeconfig", file, "m", ""}, []string{"n"}},
		"output":         {[]string{"diagnose", "--output", ""}, []string{"text", "yaml", "json"}},
		"short output":   {[]string{"preflight", "-o", ""}, []string{"text", "yaml", "json"}},
		"namespace":      {[]string{"preflight", "--kubeconfig", file, "-n", ""}, []string{"shoot"}},
		"context":        {[]string{"diagnose", "--kubeconfig", file, "--context", ""}, []string{"c"}},
		"classes":        {[]string{"render", "-f", shipped, "--class", ""}, []string{"example-worker-z1", "example-worker-z2"}},
		"no cluster":     {[]string{"diagnose", "--kubeconfig", "missing", ""}, nil},
	} {
		out, err := run(t, "", append([]string{"__complete"}, tc.args...)...)
		require.NoError(t, err, name)

		lines := strings.Split(strings.TrimSpace(out), "\n")
		require.Equal(t, tc.want, append([]string(nil), lines[:len(lines)-1]...), name)
	}

	out, err := run(t, "", "version")
	require.NoError(t, err)

	same, err := run(t, "", "--version")
	require.NoError(t, err)
	require.Equal(t, same, out)
}

// TestUsableErrors checks the errors for missing or wrong input.
func TestUsableErrors(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing.yaml")
	empty := write(t, "empty.yaml", "")

	t.Setenv("KUBECONFIG", missing)
	t.Setenv("KUBERNETES_SERVICE_HOST", "")

	for _, tc := range []struct {
		reason string
		args   []string
		want   []string
	}{
		{"no name", []string{"diagnose"}, []string{"no Machine specified", "kubectl get machines", "--all"}},
		{"a file that is not there", []string{"diagnose", "--kubeconfig", missing, "m"}, []string{"--kubeconfig", missing, "no such file"}},
		{"a file that kubectl would take", []string{"preflight"}, []string{missing, "--kubeconfig", "$KUBECONFIG"}},
		{"an empty file", []string{"preflight", "--kubeconfig", empty}, []string{empty, "--kubeconfig"}},
		{"no such context", []string{"diagnose", "--kubeconfig", controlKubeconfig(t, "http://127.0.0.1:1"), "--context=x", "m"}, []string{`"x"`, "--context"}},
		{"the provider's", []string{"preflight", "--provider-kubeconfig", missing}, []string{"--provider-kubeconfig", missing}},
		{"both", []string{"preflight", "-A", "-n", "x"}, []string{"--all-namespaces (-A)", "--namespace (-n)"}},
		{"a name too many", []string{"diagnose", "-A", "m"}, []string{"--all-namespaces (-A)"}},
		{"an unknown flag", []string{"diagnose", "--namspace=x", "m"}, []string{"--namspace", "mcm-kubevirt diagnose --help"}},
	} {
		_, err := run(t, "", tc.args...)
		require.Error(t, err, tc.reason)
		require.Equal(t, exitUsage, exitCode(err), tc.reason)

		for _, want := range tc.want {
			require.ErrorContains(t, err, want, tc.reason)
		}
	}
}

// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/commands"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/tools/controlcluster"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/tools/diagnosis"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/tools/output"
)

// fresh returns a Machine without any trace of a controller.
func fresh(created, more string) string {
	return fmt.Sprintf(`{"apiVersion":"machine.sapcloud.io/v1alpha1","kind":"Machine","metadata":{"name":"m","namespace":"shoot","uid":"u","creationTimestamp":%q%s},
		"spec":{"class":{"kind":"MachineClass","name":"c"}}}`, created, more)
}

// diagnosed runs diagnose for the Machine m of a control cluster.
func diagnosed(t *testing.T, c commands.Cluster, args ...string) (d diagnosis.Machine, text string, code int) {
	t.Helper()

	args = append([]string{"diagnose", "--kubeconfig", c.Control(t)}, args...)
	if !strings.Contains(strings.Join(args, " "), "--all") {
		args = append(args, "m")
	}

	text, err := run(t, args...)
	commands.RequireFit(t, text)

	out, again := run(t, append(args, "-o=json")...)
	require.Equal(t, output.ExitCode(err), output.ExitCode(again))
	require.NotContains(t, text+out, "t0p-secret")

	var all diagnosis.Report

	require.NoError(t, json.Unmarshal([]byte(out), &all))
	require.Len(t, all.Machines, 1)

	return all.Machines[0], text, output.ExitCode(err)
}

func TestNewCommand_Controllers(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		reason string
		change func(commands.Cluster)
		// want is the reason of the cause; empty if nothing is wrong.
		want string
		text []string
	}{
		"Running": {
			reason: "both leases are fresh",
			change: func(c commands.Cluster) { c.Leased(commands.JustNow, commands.JustNow) },
			text:   []string{"machine-controller: running, lease renewed", "NO CAUSE FOUND"},
		},
		"SidecarDead": {
			reason: "its lease is old",
			change: func(c commands.Cluster) { c.Leased(commands.JustNow, commands.Ago(5*time.Minute)) },
			want:   "ControllerDown",
			text: []string{
				"CAUSE ControllerDown", "machine-controller: NOT RUNNING, lease renewed 5m", "machine-controller is not running: its lease shoot/machine-controller was renewed 5m",
				"repair container machine-controller-manager-provider-kubevirt of Deployment machine-controller-manager", "as soon as the controller is running again",
				"kubectl --namespace=shoot logs deployment/machine-controller-manager --container=machine-controller-manager-provider-kubevirt --previous",
			},
		},
		"ManagerDead": {
			reason: "its lease is old",
			change: func(c commands.Cluster) { c.Leased(commands.Ago(5*time.Minute), commands.JustNow) },
			want:   "ControllerDown",
			text:   []string{"machine-controller-manager is not running", "no MachineDeployment or MachineSet is reconciled"},
		},
		"SidecarNeverRan": {
			reason: "it has no lease, and the Machine is not reconciled",
			change: func(c commands.Cluster) {
				c.Leased(commands.JustNow, commands.JustNow)
				delete(c, commands.LeasePath+controlcluster.MachineController)
				c[commands.MCMPath+"machines/m"] = fresh(commands.Ago(time.Hour), "")
			},
			want: "MachineNotReconciled",
			text: []string{"machine-controller: unknown, no lease found", "no lease shows that it is running"},
		},
		"NoLeaderElection": {
			reason: "there are no leases, and the Machine was reconciled",
			change: func(commands.Cluster) {},
			text:   []string{"machine-controller: unknown, no lease found", "NO CAUSE FOUND", "a controller updated the Machine's status"},
		},
		"NotReconciled": {
			reason: "no controller has reconciled the Machine",
			change: func(c commands.Cluster) { c[commands.MCMPath+"machines/m"] = fresh(commands.Ago(5*time.Hour), "") },
			want:   "MachineNotReconciled",
			text:   []string{"has not reconciled the Machine since its creation 5h", "none: no controller has updated", "--namespace=shoot"},
		},
		"JustCreated": {reason: "it may be taken up yet", change: func(c commands.Cluster) { c[commands.MCMPath+"machines/m"] = fresh(commands.JustNow, "") }},
		"TakenUp": {
			reason: "the finalizer is a sign of life",
			change: func(c commands.Cluster) {
				c[commands.MCMPath+"machines/m"] = fresh(commands.Ago(time.Hour), `,"finalizers":["machine.sapcloud.io/machine-controller-manager"]`)
			},
		},
		"NoClass": {
			reason: "machine-controller-manager skips the Machine",
			change: func(c commands.Cluster) { delete(c, commands.MCMPath+"machineclasses/c") },
			want:   "MachineClassNotFound",
			text:   []string{"MachineClass shoot/c, which the Machine refers to, does not exist", "when the MachineClass is created"},
		},
		"NoSecret": {
			reason: "machine-controller-manager hands over no kubeconfig",
			change: func(c commands.Cluster) { delete(c, "/api/v1/namespaces/shoot/secrets/s") },
			want:   "ClassSecretNotFound",
			text: []string{
				"Secret shoot/s does not exist", "shoot/s: NOT FOUND", "create the Secret in namespace shoot with the keys kubeconfig and userData", "InvalidArgument",
				"retries 3m after each failure; to retry now", `kubectl --namespace=shoot annotate machineclass c --overwrite kubevirt.machine.gardener.cloud/retry="$(date +%s)"`,
			},
		},
		"SecretElsewhere": {
			reason: "machine-controller-manager watches one namespace",
			change: func(c commands.Cluster) {
				c[commands.MCMPath+"machineclasses/c"] = strings.Replace(commands.ShootClass, `"name":"s","namespace":"shoot"`, `"name":"s","namespace":"other"`, 1)
				c["/api/v1/namespaces/other/secrets/s"] = c["/api/v1/namespaces/shoot/secrets/s"]
			},
			want: "ClassSecretNotFound",
			text: []string{"other/s: NOT VISIBLE to machine-controller-manager", "correct secretRef and credentialsSecretRef"},
		},
		"Deleting": {
			reason: "the class's annotation does not reach it",
			change: func(c commands.Cluster) {
				delete(c, "/api/v1/namespaces/shoot/secrets/s")
				c[commands.MCMPath+"machines/m"] = fresh(commands.Ago(time.Hour), `,"deletionTimestamp":"2026-01-02T03:04:05Z","finalizers":["x"]`)
			},
			want: "ClassSecretNotFound",
			text: []string{"retries 10m after each failure", "kubectl --namespace=shoot rollout restart deployment/machine-controller-manager"},
		},
		"Both": {
			reason: "what is to be repaired first comes first",
			change: func(c commands.Cluster) {
				c.Leased(commands.JustNow, commands.Ago(time.Hour))
				delete(c, "/api/v1/namespaces/shoot/secrets/s")
			},
			want: "ControllerDown",
			text: []string{"CAUSE ControllerDown", "CAUSE ClassSecretNotFound"},
		},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			shoot := commands.ShootWith(commands.Provided(t))
			tc.change(shoot)

			d, text, code := diagnosed(t, shoot, "--unschedulable-grace=1s")
			for _, want := range tc.text {
				require.Contains(t, strings.Join(strings.Fields(text), " "), strings.Join(strings.Fields(want), " "), "%s\n%s", tc.reason, text)
			}

			if tc.want == "" {
				require.Equal(t, diagnosis.ResultNothingWrong, d.Result, "%s\n%s", tc.reason, text)
				require.Zero(t, code)

				return
			}

			require.Equal(t, output.ExitInvalid, code, "%s\n%s", tc.reason, text)
			require.Equal(t, diagnosis.ResultCauseFound, d.Result)
			require.Equal(t, tc.want, d.Cause.Reason)
			require.NotEmpty(t, d.Cause.Remedy)
		})
	}
}

// TestNewCommand_AllMachines diagnoses all Machines of one namespace, and of all namespaces.
func TestNewCommand_AllMachines(t *testing.T) {
	t.Parallel()

	shoot := commands.ShootWith(commands.Provided(t)).Leased(commands.JustNow, commands.JustNow)
	list := `{"apiVersion":"machine.sapcloud.io/v1alpha1","kind":"MachineList","items":[` + shoot[commands.MCMPath+"machines/m"] + `]}`
	shoot[commands.MCMPath+"machines"] = list
	shoot["/apis/machine.sapcloud.io/v1alpha1/machines"] = list

	for _, flag := range []string{"--all", "--all-namespaces"} {
		d, _, code := diagnosed(t, shoot, flag)
		require.Zero(t, code)
		require.Equal(t, "m", d.Name)
		require.Equal(t, "shoot", d.Machine.Namespace)
	}

	shoot[commands.MCMPath+"machines"] = `{"apiVersion":"machine.sapcloud.io/v1alpha1","kind":"MachineList","items":[]}`
	_, err := run(t, "diagnose", "--kubeconfig", shoot.Control(t), "--all")
	require.ErrorContains(t, err, "no Machine in namespace shoot")
}

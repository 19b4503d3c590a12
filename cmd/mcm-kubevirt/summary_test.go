package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const machinesPath = "/apis/machine.sapcloud.io/v1alpha1/namespaces/shoot/machine"

// listOf returns a list of objects of machine-controller-manager.
func listOf(kind string, items ...string) string {
	return `{"apiVersion":"machine.sapcloud.io/v1alpha1","kind":"` + kind + `List","items":[` + strings.Join(items, ",") + `]}`
}

// pool returns a MachineDeployment that has existed for an hour.
func pool(t *testing.T, change func(map[string]any)) string {
	t.Helper()

	object := map[string]any{
		"metadata": map[string]any{"name": "pool", "namespace": "shoot", "creationTimestamp": time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)},
		"spec": map[string]any{
			"replicas": 3, "selector": map[string]any{"matchLabels": map[string]string{"name": "pool"}},
			"strategy": map[string]any{"type": "RollingUpdate", "rollingUpdate": map[string]any{"maxSurge": 1, "maxUnavailable": 0}},
			"template": map[string]any{
				"metadata": map[string]any{"labels": map[string]string{"name": "pool"}},
				"spec":     map[string]any{"class": map[string]string{"kind": "MachineClass", "name": "c"}},
			},
		},
	}

	spec, ok := object["spec"].(map[string]any)
	require.True(t, ok)
	change(spec)

	text, err := json.Marshal(object)
	require.NoError(t, err)

	return string(text)
}

// TestDiagnoseDeployments has MachineDeployments without Machines.
func TestDiagnoseDeployments(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		reason string
		change func(spec map[string]any)
		// managerRenewed is the time of the lease of machine-controller-manager.
		managerRenewed string
		want           string
		text           []string
	}{
		"NoStrategy": {
			reason: "machine-controller-manager only logs it", change: func(spec map[string]any) { delete(spec, "strategy") }, want: "MachineDeploymentRefused",
			text: []string{
				"1 MachineDeployment wants 3 Machines, none exists", "CAUSE MachineDeploymentRefused", "spec.strategy.type: Required value: set it to RollingUpdate",
				"kubectl --namespace=shoot get machinedeployment pool --output=yaml",
			},
		},
		"NoManager": {
			reason: "its lease is old", change: func(map[string]any) {}, managerRenewed: ago(time.Hour), want: "ControllerDown",
			text: []string{"machine-controller-manager is not running", "no MachineDeployment or MachineSet is reconciled"},
		},
		"Paused": {reason: "it is to wait", change: func(spec map[string]any) { spec["paused"] = true }, want: "MachineDeploymentPaused", text: []string{"remove spec.paused"}},
		"NotReconciled": {
			reason: "nothing explains it", change: func(map[string]any) {}, want: "MachineDeploymentNotReconciled",
			text: []string{"kubectl --namespace=shoot logs deployment/machine-controller-manager"},
		},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			shoot := shootWith(provided(t)).leased(justNow, justNow)
			if tc.managerRenewed != "" {
				shoot.leased(tc.managerRenewed, justNow)
			}

			shoot[machinesPath+"s"] = listOf("Machine")
			shoot[machinesPath+"deployments"] = listOf("MachineDeployment", pool(t, tc.change))
			file := shoot.control(t)

			text, err := run(t, "", "diagnose", "--kubeconfig", file, "--all")
			require.Equal(t, exitInvalid, exitCode(err), tc.reason)
			require.ErrorContains(t, err, "1 MachineDeployment wants 3 Machines, none exists")
			requireFit(t, text)

			for _, want := range tc.text {
				require.Contains(t, strings.Join(strings.Fields(text), " "), want, tc.reason)
			}

			out, err := run(t, "", "diagnose", "--kubeconfig", file, "--all", "-o", "json")
			require.Equal(t, exitInvalid, exitCode(err))

			var got diagnoses

			require.NoError(t, json.Unmarshal([]byte(out), &got))
			require.Equal(t, tc.want, got.Deployments[0].Cause.Reason, tc.reason)
			require.NotNil(t, got.Deployments[0].Cause.Retry)
		})
	}

	shoot := shootWith(provided(t)).leased(justNow, justNow)
	shoot[machinesPath+"s"] = listOf("Machine")
	shoot[machinesPath+"deployments"] = listOf("MachineDeployment", pool(t, func(spec map[string]any) { spec["replicas"] = 0 }))
	_, err := run(t, "", "diagnose", "--kubeconfig", shoot.control(t), "--all")
	require.ErrorContains(t, err, "no Machine in namespace shoot", "it wants none")
}

// TestPrintSummary diagnoses 21 Machines with two causes.
func TestPrintSummary(t *testing.T) {
	t.Parallel()

	shoot := shootWith(cluster{
		vmPath + "m":      failing(t, "Stopped", "FailedFindInstancetype", "no worker"),
		vmPath + "second": strings.Replace(failing(t, "Stopped", "FailedFindInstancetype", "no worker"), `"m"`, `"second"`, 1),
	}.provider(t)).leased(justNow, justNow)

	var items []string

	for i := range 19 {
		name := "gone-" + string(rune('a'+i))
		machine := strings.NewReplacer(`"name":"m"`, `"name":"`+name+`"`, `"spec":{`, `"spec":{"providerID":"kubevirt://m",`, `"phase":"Pending"`, `"phase":"Running"`).
			Replace(shoot[mcPath+"machines/m"])
		shoot[mcPath+"machines/"+name] = machine
		items = append(items, machine)
	}

	shoot[mcPath+"machines/second"] = strings.Replace(shoot[mcPath+"machines/m"], `"name":"m"`, `"name":"second"`, 1)
	shoot[machinesPath+"s"] = listOf("Machine", append(items, shoot[mcPath+"machines/m"], shoot[mcPath+"machines/second"])...)
	file := shoot.control(t)

	out, err := run(t, "", "diagnose", "--kubeconfig", file, "--all", "--unschedulable-grace=1s")
	require.Equal(t, exitInvalid, exitCode(err), out)
	requireFit(t, out)
	require.Less(t, strings.Count(out, "\n"), 21+40, "a line for each Machine, and each cause once:\n%s", out)
	require.Contains(t, out, "CAUSE InstancetypeNotFound, 2 Machines\n  Machines                m, second\n", out)
	require.Contains(t, out, "mcm-kubevirt diagnose --namespace=shoot gone-a, or --all --details")

	lines := strings.Split(out, "\n")
	require.Regexp(t, `^MACHINE +PHASE +RESULT +CAUSE$`, lines[0])

	for _, line := range lines[1:22] {
		require.Regexp(t, `^[a-z-]+ +(Pending|Running) +CauseFound +[A-Z]`, line)
	}

	detailed, err := run(t, "", "diagnose", "--kubeconfig", file, "--all", "--details", "--unschedulable-grace=1s")
	require.Equal(t, exitInvalid, exitCode(err))
	require.Contains(t, detailed, "EVIDENCE")
	require.Greater(t, strings.Count(detailed, "\n"), 300)
}

// TestProblems has Machines with the same reason, but not with the same remedy or retry command.
func TestProblems(t *testing.T) {
	t.Parallel()

	failed := func(namespace, name, remedy, command string) diagnosis {
		return diagnosis{Namespace: namespace, Name: name, Result: resultCauseFound, Cause: &causeReport{
			Reason: "Unschedulable", Message: "no node", Remedy: remedy, Retry: &retryHint{When: "later", Command: command},
		}}
	}

	d := &diagnoses{Machines: []diagnosis{
		failed("a", "z1", "add nodes to zone z1", "annotate machineclass c1"),
		failed("a", "z2", "add nodes to zone z2", "annotate machineclass c1"),
		failed("b", "z1", "add nodes to zone z1", "annotate machineclass c1"),
		failed("b", "w", "add nodes to zone z1", "annotate machineclass c2"),
		failed("b", "x", "run virtctl start x", "kubectl delete machine x"),
		failed("b", "y", "run virtctl start y", "kubectl delete machine y"),
		{Namespace: "b", Name: "unread", Result: resultUnknown, Error: "get Machine: forbidden"},
	}}

	var machines [][]string
	for _, p := range problems(d) {
		machines = append(machines, p.Machines)
	}

	require.Equal(t, [][]string{{"a/z1", "b/z1"}, {"a/z2"}, {"b/w"}, {"b/x", "b/y"}, {"b/unread"}}, machines)

	var out strings.Builder

	require.NoError(t, printSummary(&out, d, "none"))
	require.Contains(t, out.String(), "Unschedulable, 2 Machines\n  Machines                a/z1, b/z1\n  message                 no node (of a/z1)\n"+
		"  remedy                  add nodes to zone z1\n")
	require.Contains(t, out.String(), "  remedy                  run virtctl start x (of b/x)\n  retry                   later (of b/x)\n")
	require.Regexp(t, `(?m)^b/unread +- +Unknown`, out.String())
}

func TestMachineName(t *testing.T) {
	t.Parallel()

	for _, given := range []string{"m", "machine/m", "machines/m", "machine.machine.sapcloud.io/m"} {
		name, err := machineName(given)
		require.NoError(t, err)
		require.Equal(t, "m", name)
	}

	_, err := machineName("machinedeployment/m")
	require.ErrorContains(t, err, "is not a Machine")
}

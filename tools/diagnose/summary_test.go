// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/commands"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/tools/diagnosis"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/tools/output"
)

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

// TestPrintSummary_Deployments summarizes MachineDeployments without Machines.
func TestPrintSummary_Deployments(t *testing.T) {
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
			reason: "machine-controller-manager only logs it",
			change: func(spec map[string]any) { delete(spec, "strategy") },
			want:   "MachineDeploymentRefused",
			text: []string{
				"1 MachineDeployment wants 3 Machines, none exists", "CAUSE MachineDeploymentRefused", "spec.strategy.type: Required value: set it to RollingUpdate",
				"kubectl --namespace=shoot get machinedeployment pool --output=yaml",
			},
		},
		"NoManager": {
			reason:         "its lease is old",
			change:         func(map[string]any) {},
			managerRenewed: commands.Ago(time.Hour),
			want:           "ControllerDown",
			text:           []string{"machine-controller-manager is not running", "no MachineDeployment or MachineSet is reconciled"},
		},
		"Paused": {reason: "it is to wait", change: func(spec map[string]any) { spec["paused"] = true }, want: "MachineDeploymentPaused", text: []string{"remove spec.paused"}},
		"NotReconciled": {
			reason: "nothing explains it",
			change: func(map[string]any) {},
			want:   "MachineDeploymentNotReconciled",
			text:   []string{"kubectl --namespace=shoot logs deployment/machine-controller-manager"},
		},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			shoot := commands.ShootWith(commands.Provided(t)).Leased(commands.JustNow, commands.JustNow)
			if tc.managerRenewed != "" {
				shoot.Leased(tc.managerRenewed, commands.JustNow)
			}

			shoot[commands.MachinesPath+"s"] = commands.ListOf("Machine")
			shoot[commands.MachinesPath+"deployments"] = commands.ListOf("MachineDeployment", pool(t, tc.change))
			file := shoot.Control(t)

			text, err := run(t, "diagnose", "--kubeconfig", file, "--all")
			require.Equal(t, output.ExitInvalid, output.ExitCode(err), tc.reason)
			require.ErrorContains(t, err, "1 MachineDeployment wants 3 Machines, none exists")
			commands.RequireFit(t, text)

			for _, want := range tc.text {
				require.Contains(t, strings.Join(strings.Fields(text), " "), want, tc.reason)
			}

			out, err := run(t, "diagnose", "--kubeconfig", file, "--all", "-o", "json")
			require.Equal(t, output.ExitInvalid, output.ExitCode(err))

			var got diagnosis.Report

			require.NoError(t, json.Unmarshal([]byte(out), &got))
			require.Equal(t, tc.want, got.Deployments[0].Cause.Reason, tc.reason)
			require.NotNil(t, got.Deployments[0].Cause.Retry)
		})
	}

	shoot := commands.ShootWith(commands.Provided(t)).Leased(commands.JustNow, commands.JustNow)
	shoot[commands.MachinesPath+"s"] = commands.ListOf("Machine")
	shoot[commands.MachinesPath+"deployments"] = commands.ListOf("MachineDeployment", pool(t, func(spec map[string]any) { spec["replicas"] = 0 }))
	_, err := run(t, "diagnose", "--kubeconfig", shoot.Control(t), "--all")
	require.ErrorContains(t, err, "no Machine in namespace shoot", "it wants none")
}

// TestPrintSummary diagnoses 21 Machines with two causes.
func TestPrintSummary(t *testing.T) {
	t.Parallel()

	shoot := commands.ShootWith(commands.Cluster{
		commands.VMPath + "m":      commands.Failing(t, "Stopped", "FailedFindInstancetype", "no worker"),
		commands.VMPath + "second": strings.Replace(commands.Failing(t, "Stopped", "FailedFindInstancetype", "no worker"), `"m"`, `"second"`, 1),
	}.Provider(t)).Leased(commands.JustNow, commands.JustNow)

	var items []string

	for i := range 19 {
		name := "gone-" + string(rune('a'+i))
		machine := strings.NewReplacer(`"name":"m"`, `"name":"`+name+`"`, `"spec":{`, `"spec":{"providerID":"kubevirt://m",`, `"phase":"Pending"`, `"phase":"Running"`).
			Replace(shoot[commands.MCMPath+"machines/m"])
		shoot[commands.MCMPath+"machines/"+name] = machine
		items = append(items, machine)
	}

	shoot[commands.MCMPath+"machines/second"] = strings.Replace(shoot[commands.MCMPath+"machines/m"], `"name":"m"`, `"name":"second"`, 1)
	shoot[commands.MachinesPath+"s"] = commands.ListOf("Machine", append(items, shoot[commands.MCMPath+"machines/m"], shoot[commands.MCMPath+"machines/second"])...)
	file := shoot.Control(t)

	out, err := run(t, "diagnose", "--kubeconfig", file, "--all", "--unschedulable-grace=1s")
	require.Equal(t, output.ExitInvalid, output.ExitCode(err), out)
	commands.RequireFit(t, out)
	require.Less(t, strings.Count(out, "\n"), 21+40, "a line for each Machine, and each cause once:\n%s", out)
	require.Contains(t, out, "CAUSE InstancetypeNotFound, 2 Machines\n  Machines                m, second\n", out)
	require.Contains(t, out, "mcm-kubevirt diagnose --namespace=shoot gone-a, or --all --details")

	lines := strings.Split(out, "\n")
	require.Regexp(t, `^MACHINE +PHASE +RESULT +CAUSE$`, lines[0])

	for _, line := range lines[1:22] {
		require.Regexp(t, `^[a-z-]+ +(Pending|Running) +CauseFound +[A-Z]`, line)
	}

	detailed, err := run(t, "diagnose", "--kubeconfig", file, "--all", "--details", "--unschedulable-grace=1s")
	require.Equal(t, output.ExitInvalid, output.ExitCode(err))
	require.Contains(t, detailed, "EVIDENCE")
	require.Greater(t, strings.Count(detailed, "\n"), 300)
}

// TestProblems has Machines with the same reason, but not with the same remedy or retry command.
func TestProblems(t *testing.T) {
	t.Parallel()

	failed := func(namespace, name, remedy, command string) diagnosis.Machine {
		return diagnosis.Machine{
			Namespace: namespace,
			Name:      name,
			Result:    diagnosis.ResultCauseFound,
			Cause: &diagnosis.Cause{
				Reason:  "Unschedulable",
				Message: "no node",
				Remedy:  remedy,
				Retry:   &diagnosis.Retry{When: "later", Command: command},
			},
		}
	}

	d := &diagnosis.Report{Machines: []diagnosis.Machine{
		failed("a", "z1", "add nodes to zone z1", "annotate machineclass c1"),
		failed("a", "z2", "add nodes to zone z2", "annotate machineclass c1"),
		failed("b", "z1", "add nodes to zone z1", "annotate machineclass c1"),
		failed("b", "w", "add nodes to zone z1", "annotate machineclass c2"),
		failed("b", "x", "run virtctl start x", "kubectl delete machine x"),
		failed("b", "y", "run virtctl start y", "kubectl delete machine y"),
		{Namespace: "b", Name: "unread", Result: diagnosis.ResultUnknown, Error: "get Machine: forbidden"},
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

// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/commands"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/tools/diagnosis"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/tools/output"
)

const (
	extensionPath = "/apis/extensions.gardener.cloud/v1alpha1/namespaces/shoot/"
	clusterPath   = "/apis/extensions.gardener.cloud/v1alpha1/clusters/shoot"
	shootPath     = "/apis/core.gardener.cloud/v1beta1/namespaces/garden-dev/shoots/bar"
	volumesPath   = "/apis/cdi.kubevirt.io/v1beta1/namespaces/machines/datavolumes"
	succeeded     = `{"lastOperation":{"type":"Reconcile","state":"Succeeded","progress":100,"lastUpdateTime":"2026-01-02T03:04:05Z"}}`
)

// failedWith is the status of a resource with an error.
func failedWith(state, code, message string) string {
	return fmt.Sprintf(`{"lastOperation":{"type":"Reconcile","state":%q,"progress":50,"description":"it failed","lastUpdateTime":"2026-01-02T03:04:05Z"},
		"lastError":{"codes":[%q],"description":%q,"lastUpdateTime":"2026-01-02T03:04:05Z"}}`, state, code, message)
}

// setExtension replaces the status and the annotations of a resource.
func setExtension(c commands.Cluster, resource, status, annotations string) {
	kind := map[string]string{"infrastructures": "Infrastructure", "controlplanes": "ControlPlane", "workers": "Worker"}[resource]
	c[extensionPath+resource] = fmt.Sprintf(`{"apiVersion":"extensions.gardener.cloud/v1alpha1","kind":"%sList","items":[
		{"apiVersion":"extensions.gardener.cloud/v1alpha1","kind":%q,"metadata":{"name":"bar","namespace":"shoot","annotations":{%s}},"status":%s}]}`, kind, kind, annotations, status)
}

// seedWith returns a seed with a shoot whose resources were reconciled, and whose Machine m is scheduled.
func seedWith(provider string) commands.Cluster {
	c := commands.ShootWith(provider).Leased(commands.JustNow, commands.JustNow)
	for _, resource := range []string{"infrastructures", "controlplanes", "workers"} {
		setExtension(c, resource, succeeded, "")
	}

	c[clusterPath] = `{"apiVersion":"extensions.gardener.cloud/v1alpha1","kind":"Cluster","metadata":{"name":"shoot"},
		"spec":{"shoot":{"metadata":{"name":"bar","namespace":"garden-dev"}}}}`
	c[commands.MCMPath+"machines"] = `{"apiVersion":"machine.sapcloud.io/v1alpha1","kind":"MachineList","items":[` + c[commands.MCMPath+"machines/m"] + `]}`
	c[commands.MCMPath+"machinedeployments"] = `{"apiVersion":"machine.sapcloud.io/v1alpha1","kind":"MachineDeploymentList","items":[
		{"metadata":{"name":"bar-worker-z1","namespace":"shoot"},"spec":{"replicas":1},"status":{"availableReplicas":0}}]}`
	c["/api/v1/namespaces/shoot/secrets/cloudprovider"] = `{"apiVersion":"v1","kind":"Secret","data":{"kubeconfig":"` +
		base64.StdEncoding.EncodeToString([]byte(provider)) + `"}}`

	return c
}

// providerOf returns the kubeconfig of a provider cluster with the machine m and the volumes of pods.
func providerOf(t *testing.T, vm string, volumes ...string) string {
	t.Helper()

	return commands.Cluster{
		commands.VMPath + "m": vm,
		volumesPath + "?kubevirt.provider.extensions.gardener.cloud/cluster=shoot": `{"apiVersion":"cdi.kubevirt.io/v1beta1","kind":"DataVolumeList","items":[` + strings.Join(volumes, ",") + `]}`,
	}.Provider(t)
}

// healthy returns a VirtualMachine without a failure.
func healthy(t *testing.T) string {
	t.Helper()

	return strings.Replace(commands.Failing(t, "Running", "", ""), `"type":"Failure"`, `"type":"Other"`, 1)
}

// TestRunShoot breaks one link in each Shoot.
func TestRunShoot(t *testing.T) {
	t.Parallel()

	const (
		lost  = `{"metadata":{"name":"pvc-1","namespace":"machines","creationTimestamp":"2026-01-02T03:04:05Z"},"status":{"phase":"Failed"}}`
		ready = `{"metadata":{"name":"pvc-2","namespace":"machines"},"status":{"phase":"Succeeded"}}`
	)

	var (
		noType  = commands.Failing(t, "Stopped", "FailedFindInstancetype", "no worker")
		earlier = time.Now().Add(-5 * time.Minute).UTC().Format(time.RFC3339Nano)
	)

	tests := map[string]struct {
		reason string
		vm     string
		// volumes are the volumes of the Shoot's pods.
		volumes []string
		change  func(commands.Cluster)
		// want is the reason of the first cause, and more those of the others.
		want string
		more []string
		text []string
	}{
		"Healthy": {
			reason:  "all links are whole",
			volumes: []string{ready},
			change:  func(commands.Cluster) {},
			text:    []string{"NO CAUSE FOUND", "Infrastructure bar: Reconcile Succeeded", "MachineDeployment bar-worker-z1: 0 of 1 available", "1 Machine, none with a cause", "volumes 1, 0 incomplete"},
		},
		"Infrastructure": {
			reason: "nothing follows without it",
			want:   "InfrastructureFailed",
			more:   []string{"InstancetypeNotFound"},
			vm:     noType,
			change: func(c commands.Cluster) {
				setExtension(c, "infrastructures", failedWith("Failed", "ERR_INFRA_UNAUTHENTICATED", "replace the credentials of the Shoot"), "")
			},
			text: []string{
				"FIRST CAUSE InfrastructureFailed", "reported by Infrastructure shoot/bar", "replace the credentials of the Shoot", "codes ERR_INFRA_UNAUTHENTICATED",
				"kubectl --namespace=garden-dev annotate shoot bar gardener.cloud/operation=retry", "troubleshooting.md#err_infra_unauthenticated",
				"ALSO REPORTED InstancetypeNotFound",
			},
		},
		"ControlPlane": {
			reason: "machines do not need it, but gardenlet waits for it",
			want:   "ControlPlaneFailed",
			change: func(c commands.Cluster) {
				setExtension(c, "controlplanes", failedWith("Error", "ERR_X", "no chart"), "")
			},
			text: []string{"no chart"},
		},
		"NotTakenUp": {
			reason: "the extension does not run",
			want:   "OperationPending",
			change: func(c commands.Cluster) {
				setExtension(c, "infrastructures", succeeded, `"gardener.cloud/operation":"reconcile","gardener.cloud/timestamp":"`+earlier+`"`)
			},
			text: []string{"has not begun operation reconcile, which gardenlet requested 5m", "gardener-extension-heartbeat"},
		},
		"WorkerRepeatsTheMachine": {
			reason: "the machine has the evidence",
			vm:     noType,
			want:   "InstancetypeNotFound",
			more:   []string{"WorkerFailed"},
			change: func(c commands.Cluster) {
				setExtension(c, "workers", failedWith("Error", "ERR_CONFIGURATION_PROBLEM", "machine m: InstancetypeNotFound: no worker"), "")
			},
			text: []string{"FIRST CAUSE InstancetypeNotFound", "reported by Machine shoot/m", "create the instancetype", "mcm-kubevirt diagnose --namespace=shoot m"},
		},
		"WorkersOwnError": {
			reason: "no class is generated, whatever the machines of old ones do",
			vm:     noType,
			want:   "WorkerFailed",
			more:   []string{"InstancetypeNotFound"},
			change: func(c commands.Cluster) {
				setExtension(c, "workers", failedWith("Failed", "ERR_CONFIGURATION_PROBLEM", "spec.provider.workers[0]: no such image"), "")
			},
		},
		"MachineBeforeItsTimeout": {
			reason: "the Worker still waits",
			vm:     noType,
			want:   "InstancetypeNotFound",
			change: func(c commands.Cluster) {
				setExtension(c, "workers", `{"lastOperation":{"type":"Reconcile","state":"Processing","progress":75,"description":"waiting"}}`, "")
			},
			text: []string{"Worker bar: Reconcile Processing (75 %): waiting"},
		},
		"ControllerDown": {
			reason: "no Machine is created",
			want:   "ControllerDown",
			change: func(c commands.Cluster) {
				c[commands.MCMPath+"machines"] = `{"apiVersion":"machine.sapcloud.io/v1alpha1","kind":"MachineList","items":[]}`
				c.Leased(commands.Ago(time.Hour), commands.Ago(time.Hour))
			},
		},
		"FailedMachines": {
			reason: "they are listed although they were replaced",
			want:   "MachinesFailed",
			change: func(c commands.Cluster) {
				c[commands.MCMPath+"machinedeployments"] = strings.Replace(c[commands.MCMPath+"machinedeployments"], `"availableReplicas":0`,
					`"failedMachines":[{"name":"old","lastOperation":{"description":"it did not join"}}]`, 1)
			},
			text: []string{"old: it did not join", "0 of 1 available, 1 failed"},
		},
		"Volume": {
			reason:  "a pod waits for it",
			volumes: []string{lost, ready},
			want:    "DataVolumeFailed",
			change:  func(commands.Cluster) {},
			text:    []string{"reported by volume pvc-1", "volumes 2, 1 incomplete", "delete the PersistentVolumeClaim of the shoot"},
		},
		"Condition": {
			reason: "it is the last that counts",
			want:   "ConditionFalse",
			change: func(c commands.Cluster) {
				setExtension(c, "controlplanes", strings.Replace(succeeded, "{", `{"conditions":[{"type":"ControlPlaneHealthy","status":"False","reason":"Down",
					"message":"no replica","lastTransitionTime":"2026-01-02T03:04:05Z"}],`, 1), "")
			},
			text: []string{"ControlPlaneHealthy=False Down: no replica"},
		},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			vm := tc.vm
			if vm == "" {
				vm = healthy(t)
			}

			seed := seedWith(providerOf(t, vm, tc.volumes...))
			tc.change(seed)

			d, text, code := diagnosedShoot(t, "--kubeconfig", seed.Control(t), "--shoot=shoot", "--unschedulable-grace=1s")
			for _, want := range tc.text {
				require.Contains(t, strings.Join(strings.Fields(text), " "), want, "%s\n%s", tc.reason, text)
			}

			if tc.want == "" {
				require.Equal(t, diagnosis.ResultNothingWrong, d.Result, text)
				require.Zero(t, code)

				return
			}

			require.Equal(t, diagnosis.ResultCauseFound, d.Result, "%s\n%s", tc.reason, text)
			require.Equal(t, output.ExitInvalid, code)
			require.Equal(t, tc.want, d.Cause.Reason, "%s\n%s", tc.reason, text)
			require.NotEmpty(t, d.Cause.Remedy)

			var more []string
			for _, cause := range d.MoreCauses {
				more = append(more, cause.Reason)
			}

			require.Equal(t, tc.more, more, "%s\n%s", tc.reason, text)
		})
	}
}

// diagnosedShoot runs diagnose --shoot as text and as JSON.
func diagnosedShoot(t *testing.T, args ...string) (d diagnosis.Shoot, text string, code int) {
	t.Helper()

	args = append([]string{"diagnose"}, args...)
	text, err := run(t, args...)
	commands.RequireFit(t, text)

	out, again := run(t, append(args, "-o=json")...)
	require.Equal(t, output.ExitCode(err), output.ExitCode(again), "%v %v", err, again)
	require.NotContains(t, text+out, "t0p-secret")
	require.NoError(t, json.Unmarshal([]byte(out), &d), "%v\n%s", err, out)

	return d, text, output.ExitCode(err)
}

// gardenWith returns a garden with the Shoot garden-dev/bar.
func gardenWith(status string) commands.Cluster {
	return commands.Cluster{shootPath: `{"apiVersion":"core.gardener.cloud/v1beta1","kind":"Shoot","metadata":{"name":"bar","namespace":"garden-dev"},"status":` + status + `}`}
}

// TestRunShoot_InGarden reads the garden alone, and then the seed.
func TestRunShoot_InGarden(t *testing.T) {
	t.Parallel()

	const status = `{"technicalID":"shoot","seedName":"europe-1","credentials":{"rotation":{"kubeconfig":{},"etcdEncryptionKey":{"phase":"Preparing"}}},
		"lastOperation":{"type":"Reconcile","state":"Failed","progress":75,"description":"waiting for the Worker"},
		"lastErrors":[{"description":"machine m: InstancetypeNotFound: no worker","codes":["ERR_CONFIGURATION_PROBLEM"]}]}`

	garden := gardenWith(status).Control(t)
	d, text, code := diagnosedShoot(t, "--kubeconfig", garden, "--shoot=garden-dev/bar")
	require.Equal(t, output.ExitInvalid, code)
	require.Equal(t, "ShootFailed", d.Cause.Reason)
	require.Equal(t, "shoot", d.Namespace)
	require.Equal(t, []string{"etcdEncryptionKey: Preparing"}, d.Rotations)
	require.Contains(t, text, "on seed europe-1")
	require.Contains(t, text, "mcm-kubevirt diagnose --shoot=garden-dev/bar --seed-kubeconfig=SEED.yaml")
	require.Contains(t, text, "kubectl --namespace=garden-dev annotate shoot bar gardener.cloud/operation=retry")

	seed := seedWith(providerOf(t, commands.Failing(t, "Stopped", "FailedFindInstancetype", "no worker"))).Control(t)
	d, _, code = diagnosedShoot(t, "--kubeconfig", garden, "--shoot=garden-dev/bar", "--seed-kubeconfig", seed, "--unschedulable-grace=1s")
	require.Equal(t, output.ExitInvalid, code)
	require.Equal(t, "InstancetypeNotFound", d.Cause.Reason, "the machine has the evidence")
	require.Equal(t, "ShootFailed", d.MoreCauses[len(d.MoreCauses)-1].Reason)

	d, _, code = diagnosedShoot(t, "--kubeconfig", gardenWith(`{"lastOperation":{"type":"Create","state":"Pending","description":"no seed fits"}}`).Control(t),
		"--shoot=garden-dev/bar")
	require.Equal(t, output.ExitInvalid, code)
	require.Equal(t, "ShootNotScheduled", d.Cause.Reason)
}

// TestValidateShootArguments checks the errors for wrong command lines and clusters.
func TestValidateShootArguments(t *testing.T) {
	t.Parallel()

	seed := seedWith("").Control(t)

	for _, tc := range []struct {
		reason string
		args   []string
		want   string
	}{
		{"a Machine too many", []string{"--shoot=shoot", "m"}, "remove the names of Machines"},
		{"two namespaces", []string{"--shoot=shoot", "-n", "other"}, "remove --namespace (-n)"},
		{"no name", []string{"--shoot=garden-dev/"}, "NAMESPACE/NAME"},
		{"--kubeconfig is the seed's", []string{"--shoot=shoot", "--seed-kubeconfig=x"}, "remove --seed-kubeconfig"},
		{"the driver's account reads no consoles", []string{"--console-lines", "m"}, "--console-lines requires"},
		{"no Shoot", []string{"--seed-kubeconfig=x", "m"}, "--seed-kubeconfig requires --shoot"},
		{"a name in the garden", []string{"--kubeconfig", seed, "--shoot=bar"}, "for the garden, write --shoot=NAMESPACE/NAME"},
		{"the seed is not the garden", []string{"--kubeconfig", seed, "--shoot=garden-dev/bar"}, "--kubeconfig must be for the garden"},
	} {
		_, err := run(t, append([]string{"diagnose"}, tc.args...)...)
		require.ErrorContains(t, err, tc.want, tc.reason)
		require.Equal(t, output.ExitUsage, output.ExitCode(err), tc.reason)
	}
}

// TestRunShoot_Hostile has control sequences for terminals in a Shoot's status.
func TestRunShoot_Hostile(t *testing.T) {
	t.Parallel()

	const bad = `\u001b[2J\u202e\nNO CAUSE FOUND\r`

	status := strings.ReplaceAll(`{"technicalID":"BAD","seedName":"BAD","lastOperation":{"type":"BAD","state":"Error","description":"BAD"},"conditions":[{"type":"BAD","status":"False",
		"reason":"BAD","message":"BAD"}],"lastErrors":[{"description":"BAD","codes":["BAD"]}],"credentials":{"rotation":{"BAD":{"phase":"BAD"}}}}`, "BAD", bad)

	file := gardenWith(status).Control(t)
	for _, format := range []string{output.Text, "yaml", "json"} {
		out, err := run(t, "diagnose", "--kubeconfig", file, "--shoot=garden-dev/bar", "-o", format)
		require.Equal(t, output.ExitInvalid, output.ExitCode(err))
		require.NotContains(t, out, "\x1b")
		require.NotContains(t, out, "\u202e")
		require.NotContains(t, out, `\u001b`)
		require.NotContains(t, out, "\nNO CAUSE FOUND")

		if format == output.Text {
			commands.RequireFit(t, out)
		}
	}
}

// TestPage_Shoot pins the text output for a Shoot whose only machine has been unscheduled for
// two minutes.
func TestPage_Shoot(t *testing.T) {
	t.Parallel()

	now := time.Date(2026, 1, 2, 3, 7, 5, 0, time.UTC)
	at := func(seconds int) *time.Time { return new(now.Add(-time.Duration(seconds) * time.Second)) }

	d := diagnosis.Shoot{
		Shoot:     "shoot--foo--bar",
		Namespace: "shoot--foo--bar",
		Result:    diagnosis.ResultCauseFound,
		Volumes:   &diagnosis.VolumesState{},
		Links: []diagnosis.Link{
			{Kind: "Infrastructure", Name: "bar", State: "Reconcile Succeeded", Updated: at(240)},
			{Kind: "ControlPlane", Name: "bar", State: "Reconcile Succeeded", Updated: at(235)},
			{Kind: "Worker", Name: "bar", State: "Reconcile Error (50 %): Error reconciling Worker", Updated: at(60)},
			{Kind: "MachineDeployment", Name: "shoot--foo--bar-worker-z1", State: "0 of 1 available"},
		},
		Machines: []diagnosis.Machine{{Name: "shoot--foo--bar-worker-z1-abc", Result: diagnosis.ResultCauseFound}},
		Cause: &diagnosis.ShootCause{
			Link: "Machine shoot--foo--bar/shoot--foo--bar-worker-z1-abc",
			Cause: diagnosis.Cause{
				Reason:  "Unschedulable",
				Message: "0/9 nodes are available: 3 node(s) had untolerated taint(s), 6 Insufficient memory",
				Remedy:  "add provider nodes to region europe, zone z1, uncordon nodes there, or request less",
				Since:   at(100),
				Retry:   &diagnosis.Retry{When: "machine-controller-manager retries 5s after each failure; no command is needed", Period: "5s"},
			},
		},
		MoreCauses: []*diagnosis.ShootCause{{
			Link:  "Worker shoot--foo--bar/bar",
			Codes: []string{"ERR_INFRA_RESOURCES_DEPLETED"},
			Cause: diagnosis.Cause{Reason: "WorkerFailed", Message: "machine shoot--foo--bar-worker-z1-abc: Unschedulable: 0/9 nodes are available"},
		}},
		Next: "mcm-kubevirt diagnose --namespace=shoot--foo--bar shoot--foo--bar-worker-z1-abc",
	}

	var buffer bytes.Buffer

	require.NoError(t, page(shootTemplate, "--unschedulable-grace=30s --evacuation=false --virtual-machine-template=safe", now).Write(&buffer, &d))
	commands.RequireFit(t, buffer.String())

	const golden = "testdata/shoot.golden.txt"
	if *update {
		require.NoError(t, os.WriteFile(golden, buffer.Bytes(), 0o600))
	}

	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), buffer.String())

	page, err := os.ReadFile("../../docs/troubleshooting.md")
	require.NoError(t, err)
	require.Contains(t, string(page), "```\n"+string(want)+"```\n", "the page shows it")
}

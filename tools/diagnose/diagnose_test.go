// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"bytes"
	"encoding/base64"
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/commands"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/tools/controlcluster"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/tools/diagnosis"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/tools/output"
)

// withMoreClasses adds two MachineClasses before a shoot's own: one with rejected
// credentials, and one without its Secret.
func withMoreClasses(t *testing.T, shoot commands.Cluster) commands.Cluster {
	t.Helper()

	expired := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Unauthorized","message":"Unauthorized","code":401}`))
	}))
	t.Cleanup(expired.Close)

	class := func(name, secret string) string {
		return strings.NewReplacer(`"name":"c"`, `"name":"`+name+`"`, `"name":"s"`, `"name":"`+secret+`"`).Replace(commands.ShootClass)
	}

	shoot["/api/v1/namespaces/shoot/secrets/expired"] = `{"apiVersion":"v1","kind":"Secret","data":{"kubeconfig":"` +
		base64.StdEncoding.EncodeToString([]byte(commands.KubeconfigOf(expired))) + `"}}`
	shoot[commands.MCMPath+"machineclasses"] = `{"apiVersion":"machine.sapcloud.io/v1alpha1","kind":"MachineClassList","items":[` +
		class("a", "expired") + `,` + class("b", "missing") + `,` + commands.ShootClass + `]}`

	return shoot
}

var update = flag.Bool("update", false, "write the golden files")

func TestNewCommand(t *testing.T) {
	t.Parallel()

	const noInstancetype = "FailedFindInstancetype"

	stopped := commands.Failing(t, "Stopped", noInstancetype, "no worker")
	provider := commands.Cluster{commands.VMPath + "m": stopped, commands.VMPath + "orphan": strings.Replace(stopped, `"m"`, `"orphan"`, 1)}.Provider(t)
	control := commands.ShootWith(provider).Control(t)
	empty := commands.Cluster{}.Provider(t)
	providerKubeconfig := commands.Write(t, "provider.yaml", provider)
	running := commands.ShootWith(empty)
	running[commands.MCMPath+"machines/m"] = strings.Replace(running[commands.MCMPath+"machines/m"], `"spec":{`, `"spec":{"providerID":"kubevirt://m",`, 1)
	several := func(provider string) commands.Cluster { return withMoreClasses(t, commands.ShootWith(provider)) }

	tests := map[string]struct {
		reason string
		args   []string
		code   int
		want   []string
	}{
		"Cause": {
			reason: "the Machine leads to everything",
			args:   []string{"--control-kubeconfig", control, "m"},
			code:   output.ExitInvalid,
			want: []string{
				"Pending for", "shoot/c", "Create Failed ResourceExhausted", "as it was", "CAUSE InstancetypeNotFound", "no worker",
				"create the instancetype", "FailedPrecondition", "Failure=True FailedFindInstancetype", output.TroubleshootingURL,
			},
		},
		"Young": {
			reason: "it is a failure only after its time",
			args:   []string{"--control-kubeconfig", control, "--unschedulable-grace=100000h", "m"},
			want:   []string{"SUSPECTED CAUSE InstancetypeNotFound", "which is in", "--unschedulable-grace=100000h0m0s --evacuation=false --virtual-machine-template=safe"},
		},
		"Vanished": {
			reason: "the Machine has had a VirtualMachine",
			code:   output.ExitInvalid,
			args:   []string{"--control-kubeconfig", running.Control(t), "m"},
			want:   []string{"CAUSE MachineVanished", "not reported by the driver", "spec.providerID", "deleted externally", "no object of the machine was found"},
		},
		"VanishedBorrowed": {
			reason: "reading is enough to see that",
			code:   output.ExitInvalid,
			want:   []string{"CAUSE MachineVanished"},
			args:   []string{"--control-kubeconfig", running.Control(t), "--provider-kubeconfig", commands.Write(t, "empty.yaml", empty), "m"},
		},
		"Orphan": {
			reason: "it is not of the class whose credentials have expired",
			code:   output.ExitInvalid,
			args:   []string{"--control-kubeconfig", several(provider).Control(t), "orphan"},
			want:   []string{"CAUSE InstancetypeNotFound", "with MachineClass a: CredentialsRefused", "not read", "get Secret shoot/missing"},
		},
		"Nowhere": {
			reason: "it may be on a provider cluster that cannot be read",
			code:   output.ExitUsage,
			args:   []string{"--control-kubeconfig", several(provider).Control(t), "gone"},
			want:   []string{"NOT DIAGNOSED", "with MachineClass a: CredentialsRefused", "get Secret shoot/missing"},
		},
		"NoMachine": {
			reason: "the classes lead to the VirtualMachine, and it is gone too",
			args:   []string{"--control-kubeconfig", control, "gone"},
			code:   output.ExitUsage,
			want:   []string{"NOT DIAGNOSED", "the Machine does not exist"},
		},
		"Several": {
			reason: "what could not be looked at counts more",
			args:   []string{"--control-kubeconfig", control, "m", "gone"},
			code:   output.ExitUsage,
			want:   []string{"CAUSE InstancetypeNotFound", "NOT DIAGNOSED"},
		},
		"Unreachable": {
			reason: "without the control cluster nothing is known",
			code:   output.ExitUsage,
			want:   []string{"NOT DIAGNOSED", "Machine shoot/m"},
			args:   []string{"--control-kubeconfig", commands.ControlKubeconfig(t, "http://127.0.0.1:1"), "m"},
		},
		"ByName": {
			reason: "the tags are enough",
			args:   []string{"--provider-kubeconfig", providerKubeconfig, "--cluster=c", "m"},
			code:   output.ExitInvalid,
			want:   []string{"there is no Machine with this name", "CAUSE InstancetypeNotFound"},
		},
		"Foreign": {
			reason: "the tags do not fit",
			args:   []string{"--provider-kubeconfig", providerKubeconfig, "--cluster=other", "m"},
			code:   output.ExitInvalid,
			want:   []string{"CAUSE ForeignObject", "AlreadyExists"},
		},
		"NotCreated": {
			reason: "the class would be refused",
			code:   output.ExitInvalid,
			want:   []string{"CAUSE InvalidInput", "no object of the machine was found", "dry run"},
			args:   []string{"--control-kubeconfig", commands.ShootWith(empty).Control(t), "m"},
		},
		"Borrowed": {
			reason: "what other credentials may not do says nothing of the machine",
			args:   []string{"--provider-kubeconfig", commands.Write(t, "bad.yaml", "{}"), "--cluster=c", "m"},
			code:   output.ExitUsage,
			want:   []string{"NOT DIAGNOSED", "InvalidInput"},
		},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			out, err := run(t, append([]string{"diagnose"}, tc.args...)...)
			require.Equal(t, tc.code, output.ExitCode(err), "%s: %v\n%s", tc.reason, err, out)

			for _, want := range tc.want {
				require.Contains(t, strings.Join(strings.Fields(out), " "), want, tc.reason)
			}

			require.NotContains(t, out, "t0p-secret", "what a Secret holds is not printed")
			commands.RequireFit(t, out)
		})
	}
}

func TestNewCommand_ImpersonateWithoutControl(t *testing.T) {
	t.Parallel()

	file := commands.Write(t, "provider.yaml", commands.Cluster{}.Provider(t))

	for _, flag := range []string{"--as", "--as-uid", "--as-group"} {
		_, err := run(t, "diagnose", "--provider-kubeconfig", file, "--cluster=c", flag+"=operator", "m")
		require.ErrorContains(t, err, flag+" applies to the control cluster")
	}
}

// TestNewCommand_HostileProvider lets a provider cluster return control sequences for terminals, and
// lines that imitate the program's output.
func TestNewCommand_HostileProvider(t *testing.T) {
	t.Parallel()

	const bad = "\x1b[2J\x1b]0;owned\a\u202e\n\nNO CAUSE FOUND\r"

	hostile := commands.Cluster{commands.VMPath + "m": commands.Failing(t, bad+strings.Repeat("x", 5000), bad, strings.Repeat("y", 300)+bad)}
	file := commands.Write(t, "provider.yaml", hostile.Provider(t))

	for _, format := range []string{output.Text, "yaml", "json"} {
		out, err := run(t, "diagnose", "--provider-kubeconfig", file, "--cluster=c", "-o", format, "m")
		require.Equal(t, output.ExitInvalid, output.ExitCode(err))
		require.NotContains(t, out, "\x1b")
		require.NotContains(t, out, "\u202e")
		require.NotContains(t, out, `\u001b`)
		require.NotContains(t, out, "\nNO CAUSE FOUND")
		require.Less(t, len(out), 10_000)

		if format == output.Text {
			commands.RequireFit(t, out)
		}
	}
}

// TestPage_Machines pins the text output for a machine that has been unscheduled for three minutes.
func TestPage_Machines(t *testing.T) {
	t.Parallel()

	now := time.Date(2026, 1, 2, 3, 7, 5, 0, time.UTC)
	at := func(seconds int) time.Time { return now.Add(-time.Duration(seconds) * time.Second) }
	pointer := func(seconds int) *time.Time { return new(at(seconds)) }
	object := func(kind, name, state string, age int) spi.Object {
		return spi.Object{ObjectName: spi.ObjectName{Kind: kind, Namespace: "machines", Name: name}, State: state, Created: at(age)}
	}

	image := object("DataVolume", "golden-e89a47b5286342a60b69", "Succeeded", 3600)
	image.Role = "golden image"
	unscheduled := spi.Sign{
		Object:  spi.ObjectName{Kind: "VirtualMachineInstance", Namespace: "machines", Name: "worker-1"},
		Type:    "PodScheduled",
		Status:  "False",
		Reason:  "Unschedulable",
		Since:   at(100),
		Message: "0/9 nodes are available: 3 node(s) had untolerated taint(s), 6 Insufficient memory",
	}
	mount := spi.Sign{
		Object:  spi.ObjectName{Kind: "Pod", Namespace: "machines", Name: "virt-launcher-worker-1-abcde"},
		Type:    "Event",
		Status:  "Warning",
		Reason:  "FailedMount",
		Since:   at(90),
		Last:    pointer(5),
		Message: "MountVolume.SetUp failed",
	}

	d := diagnosis.Machine{
		Name:   "worker-1",
		Result: diagnosis.ResultCauseFound,
		Machine: &diagnosis.MachineState{
			Namespace:  "shoot--foo--bar",
			Class:      "worker-z1",
			Phase:      "Pending",
			PhaseSince: pointer(180),
			Created:    at(181),
			LastOperation: &diagnosis.LastOperation{
				Type:        "Create",
				State:       "Failed",
				Code:        "ResourceExhausted",
				Updated:     at(20),
				Description: "Provider error: machine codes error: code = [ResourceExhausted] message = [Unschedulable: 0/9 nodes are available]",
			},
		},
		Control: &diagnosis.ControlState{
			Controllers: []controlcluster.Controller{
				{Name: controlcluster.Manager, Lease: "shoot--foo--bar/" + controlcluster.Manager, State: controlcluster.Running, Holder: "machine-controller-manager-7c9f_1", Renewed: pointer(1)},
				{Name: controlcluster.MachineController, Lease: "shoot--foo--bar/" + controlcluster.MachineController, State: controlcluster.Running, Holder: "machine-controller-manager-7c9f_2", Renewed: pointer(2)},
			},
			Secrets: []controlcluster.Secret{
				{Namespace: "shoot--foo--bar", Name: "worker-z1", State: controlcluster.SecretFound, Keys: []string{"userData"}},
				{Namespace: "shoot--foo--bar", Name: "cloudprovider", State: controlcluster.SecretFound, Keys: []string{"kubeconfig"}},
			},
			LastUpdate: pointer(20),
		},
		Provider: &diagnosis.ProviderState{
			Server:    "provider.example.com",
			Namespace: "machines",
			Stage:     spi.StageCreating,
			Objects: []spi.Object{
				object("VirtualMachine", "worker-1", "ErrorUnschedulable", 180), image,
				object("VirtualMachineInstance", "worker-1", "Scheduling", 120),
			},
			Unread: []string{"list events: forbidden"},
		},
		Cause: &diagnosis.Cause{
			Reason:   "Unschedulable",
			Message:  unscheduled.Message,
			Code:     "ResourceExhausted",
			Remedy:   "add provider nodes to region europe, zone z1, uncordon nodes there, or request less",
			Since:    pointer(100),
			Reported: pointer(70),
			Evidence: &unscheduled,
			Retry:    &diagnosis.Retry{When: "machine-controller-manager retries 5s after each failure; no command is needed", Period: "5s"},
		},
		Evidence: []spi.Sign{unscheduled, mount},
	}

	var buffer bytes.Buffer

	all := diagnosis.Report{Machines: []diagnosis.Machine{d}}
	require.NoError(t, page(machinesTemplate, "--unschedulable-grace=30s --evacuation=false --virtual-machine-template=safe", now).Write(&buffer, &all))

	out := buffer.String()
	commands.RequireFit(t, out)

	const golden = "testdata/diagnosis.golden.txt"
	if *update {
		require.NoError(t, os.WriteFile(golden, []byte(out), 0o600))
	}

	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), out)

	page, err := os.ReadFile("../../docs/troubleshooting.md")
	require.NoError(t, err)
	require.Contains(t, string(page), "```\n"+string(want)+"```\n", "the page shows it")
}

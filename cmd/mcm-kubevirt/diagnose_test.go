package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// cluster is an API server that returns these bodies by path, or by path and label selector, and 404
// for everything else.
type cluster map[string]string

func (c cluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")

	body, known := c[r.URL.Path+"?"+r.URL.Query().Get("labelSelector")]
	if !known {
		body, known = c[r.URL.Path]
	}

	if r.Method != http.MethodGet || !known {
		w.WriteHeader(http.StatusNotFound)

		body = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","message":"not found","code":404}`
	}

	// The client detects truncation.
	_, _ = io.WriteString(w, strings.ReplaceAll(body, justNow, time.Now().UTC().Format(metav1.RFC3339Micro)))
}

// provider serves the cluster as a provider cluster, and returns its kubeconfig.
func (c cluster) provider(t *testing.T) string {
	t.Helper()

	server := httptest.NewTLSServer(c)
	t.Cleanup(server.Close)

	return kubeconfigFor(server)
}

func kubeconfigFor(server *httptest.Server) string {
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})

	return `apiVersion: v1
kind: Config
current-context: c
clusters: [{name: c, cluster: {server: "` + server.URL + `", certificate-authority-data: ` + base64.StdEncoding.EncodeToString(authority) + `}}]
contexts: [{name: c, context: {cluster: c, user: u, namespace: machines}}]
users: [{name: u, user: {token: t0p-secret}}]
`
}

// control serves the cluster as a control cluster, and returns the path of its kubeconfig.
func (c cluster) control(t *testing.T) string {
	t.Helper()

	server := httptest.NewServer(c)
	t.Cleanup(server.Close)

	return controlKubeconfig(t, server.URL)
}

const (
	vmPath = "/apis/kubevirt.io/v1/namespaces/machines/virtualmachines/"
	mcPath = "/apis/machine.sapcloud.io/v1alpha1/namespaces/shoot/"
)

// failing returns a VirtualMachine m that KubeVirt has
// rejected for a long time, with the given texts.
func failing(t *testing.T, status, reason, message string) string {
	t.Helper()

	vm, err := json.Marshal(map[string]any{
		"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine",
		"metadata": map[string]any{
			"name": "m", "namespace": "machines", "uid": "vm", "creationTimestamp": "2026-01-02T03:04:05Z",
			"labels": map[string]string{"mcm.gardener.cloud/cluster": "c", "mcm.gardener.cloud/role": "node"},
		},
		"status": map[string]any{"printableStatus": status, "conditions": []any{map[string]any{
			"type": "Failure", "status": "True", "reason": reason, "message": message, "lastTransitionTime": "2026-01-02T03:05:05Z",
		}}},
	})
	require.NoError(t, err)

	return string(vm)
}

// shootWith returns a control cluster with the Machine m, whose
// class and Secret refer to a provider cluster.
func shootWith(provider string) cluster {
	return cluster{
		mcPath + "machines/m": `{"apiVersion":"machine.sapcloud.io/v1alpha1","kind":"Machine","metadata":{"name":"m","namespace":"shoot","uid":"u"},
			"spec":{"class":{"kind":"MachineClass","name":"c"}},"status":{"currentStatus":{"phase":"Pending","lastUpdateTime":"2026-01-02T03:04:05Z"},
			"lastOperation":{"type":"Create","state":"Failed","errorCode":"ResourceExhausted","description":"as it was","lastUpdateTime":"2026-01-02T03:04:05Z"}}}`,
		mcPath + "machineclasses/c": shootClass,
		mcPath + "machineclasses":   `{"apiVersion":"machine.sapcloud.io/v1alpha1","kind":"MachineClassList","items":[` + shootClass + `]}`,
		"/api/v1/namespaces/shoot/secrets/s": `{"apiVersion":"v1","kind":"Secret","data":{"userData":"dDBwLXNlY3JldA==",
			"kubeconfig":"` + base64.StdEncoding.EncodeToString([]byte(provider)) + `"}}`,
	}
}

const shootClass = `{"apiVersion":"machine.sapcloud.io/v1alpha1","kind":"MachineClass","metadata":{"name":"c","namespace":"shoot"},
	"provider":"kubevirt","secretRef":{"name":"s","namespace":"shoot"},
	"providerSpec":{"tags":{"mcm.gardener.cloud/cluster":"c","mcm.gardener.cloud/role":"node"}}}`

// withMoreClasses adds two MachineClasses before a shoot's own: one with rejected
// credentials, and one without its Secret.
func withMoreClasses(t *testing.T, shoot cluster) cluster {
	t.Helper()

	expired := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Unauthorized","message":"Unauthorized","code":401}`))
	}))
	t.Cleanup(expired.Close)

	class := func(name, secret string) string {
		return strings.NewReplacer(`"name":"c"`, `"name":"`+name+`"`, `"name":"s"`, `"name":"`+secret+`"`).Replace(shootClass)
	}

	shoot["/api/v1/namespaces/shoot/secrets/expired"] = `{"apiVersion":"v1","kind":"Secret","data":{"kubeconfig":"` +
		base64.StdEncoding.EncodeToString([]byte(kubeconfigFor(expired))) + `"}}`
	shoot[mcPath+"machineclasses"] = `{"apiVersion":"machine.sapcloud.io/v1alpha1","kind":"MachineClassList","items":[` +
		class("a", "expired") + `,` + class("b", "missing") + `,` + shootClass + `]}`

	return shoot
}

func TestDiagnose(t *testing.T) {
	t.Parallel()

	const noInstancetype = "FailedFindInstancetype"

	stopped := failing(t, "Stopped", noInstancetype, "no worker")
	provider := cluster{vmPath + "m": stopped, vmPath + "orphan": strings.Replace(stopped, `"m"`, `"orphan"`, 1)}.provider(t)
	control := shootWith(provider).control(t)
	empty := cluster{}.provider(t)
	providerKubeconfig := write(t, "provider.yaml", provider)
	running := shootWith(empty)
	running[mcPath+"machines/m"] = strings.Replace(running[mcPath+"machines/m"], `"spec":{`, `"spec":{"providerID":"kubevirt://m",`, 1)
	several := func(provider string) cluster { return withMoreClasses(t, shootWith(provider)) }

	tests := map[string]struct {
		reason string
		args   []string
		code   int
		want   []string
	}{
		"Cause": {
			reason: "the Machine leads to everything", args: []string{"--control-kubeconfig", control, "m"}, code: exitInvalid,
			want: []string{
				"Pending for", "shoot/c", "Create Failed ResourceExhausted", "as it was", "CAUSE InstancetypeNotFound", "no worker",
				"create the instancetype", "FailedPrecondition", "Failure=True FailedFindInstancetype", troubleshootingURL,
			},
		},
		"Young": {
			reason: "it is a failure only after its time", args: []string{"--control-kubeconfig", control, "--unschedulable-grace=100000h", "m"},
			want: []string{"SUSPECTED CAUSE InstancetypeNotFound", "which is in", "--unschedulable-grace=100000h0m0s --evacuation=false --virtual-machine-template=safe"},
		},
		"Vanished": {
			reason: "the Machine has had a VirtualMachine", code: exitInvalid, args: []string{"--control-kubeconfig", running.control(t), "m"},
			want: []string{"CAUSE MachineVanished", "not reported by the driver", "spec.providerID", "deleted externally", "no object of the machine was found"},
		},
		"VanishedBorrowed": {
			reason: "reading is enough to see that", code: exitInvalid, want: []string{"CAUSE MachineVanished"},
			args: []string{"--control-kubeconfig", running.control(t), "--provider-kubeconfig", write(t, "empty.yaml", empty), "m"},
		},
		"Orphan": {
			reason: "it is not of the class whose credentials have expired", code: exitInvalid,
			args: []string{"--control-kubeconfig", several(provider).control(t), "orphan"},
			want: []string{"CAUSE InstancetypeNotFound", "with MachineClass a: CredentialsRefused", "not read", "get Secret shoot/missing"},
		},
		"Nowhere": {
			reason: "it may be on a provider cluster that cannot be read", code: exitUsage, args: []string{"--control-kubeconfig", several(provider).control(t), "gone"},
			want: []string{"NOT DIAGNOSED", "with MachineClass a: CredentialsRefused", "get Secret shoot/missing"},
		},
		"NoMachine": {
			reason: "the classes lead to the VirtualMachine, and it is gone too", args: []string{"--control-kubeconfig", control, "gone"}, code: exitUsage,
			want: []string{"NOT DIAGNOSED", "the Machine does not exist"},
		},
		"Several": {
			reason: "what could not be looked at counts more", args: []string{"--control-kubeconfig", control, "m", "gone"}, code: exitUsage,
			want: []string{"CAUSE InstancetypeNotFound", "NOT DIAGNOSED"},
		},
		"Unreachable": {
			reason: "without the control cluster nothing is known", code: exitUsage, want: []string{"NOT DIAGNOSED", "Machine shoot/m"},
			args: []string{"--control-kubeconfig", controlKubeconfig(t, "http://127.0.0.1:1"), "m"},
		},
		"ByName": {
			reason: "the tags are enough", args: []string{"--provider-kubeconfig", providerKubeconfig, "--cluster=c", "m"}, code: exitInvalid,
			want: []string{"there is no Machine with this name", "CAUSE InstancetypeNotFound"},
		},
		"Foreign": {
			reason: "the tags do not fit", args: []string{"--provider-kubeconfig", providerKubeconfig, "--cluster=other", "m"}, code: exitInvalid,
			want: []string{"CAUSE ForeignObject", "AlreadyExists"},
		},
		"NotCreated": {
			reason: "the class would be refused", code: exitInvalid, want: []string{"CAUSE InvalidInput", "no object of the machine was found", "dry run"},
			args: []string{"--control-kubeconfig", shootWith(empty).control(t), "m"},
		},
		"Borrowed": {
			reason: "what other credentials may not do says nothing of the machine", args: []string{"--provider-kubeconfig", write(t, "bad.yaml", "{}"), "--cluster=c", "m"},
			code: exitUsage, want: []string{"NOT DIAGNOSED", "InvalidInput"},
		},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			out, err := run(t, "", append([]string{"diagnose"}, tc.args...)...)
			require.Equal(t, tc.code, exitCode(err), "%s: %v\n%s", tc.reason, err, out)

			for _, want := range tc.want {
				require.Contains(t, strings.Join(strings.Fields(out), " "), want, tc.reason)
			}

			require.NotContains(t, out, "t0p-secret", "what a Secret holds is not printed")
			requireFit(t, out)
		})
	}
}

// requireFit requires lines that a terminal shows unchanged.
func requireFit(t *testing.T, out string) {
	t.Helper()

	for line := range strings.Lines(out) {
		line = strings.TrimSuffix(line, "\n")
		// Commands and URLs are meant to be copied, so they stay whole.
		if whole := strings.TrimSpace(line); !strings.HasPrefix(whole, "kubectl ") && !strings.Contains(whole, "https://") {
			require.LessOrEqual(t, utf8.RuneCountInString(line), textWidth, line)
		}

		require.Equal(t, -1, strings.IndexFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }), "%q", line)
	}
}

// TestDiagnoseHostileProvider lets a provider cluster return control sequences for terminals, and
// lines that imitate the program's output.
func TestDiagnoseHostileProvider(t *testing.T) {
	t.Parallel()

	const bad = "\x1b[2J\x1b]0;owned\a\u202e\n\nNO CAUSE FOUND\r"

	hostile := cluster{vmPath + "m": failing(t, bad+strings.Repeat("x", 5000), bad, strings.Repeat("y", 300)+bad)}
	file := write(t, "provider.yaml", hostile.provider(t))

	for _, format := range []string{outputText, outputYAML, outputJSON} {
		out, err := run(t, "", "diagnose", "--provider-kubeconfig", file, "--cluster=c", "-o", format, "m")
		require.Equal(t, exitInvalid, exitCode(err))
		require.NotContains(t, out, "\x1b")
		require.NotContains(t, out, "\u202e")
		require.NotContains(t, out, `\u001b`)
		require.NotContains(t, out, "\nNO CAUSE FOUND")
		require.Less(t, len(out), 10_000)

		if format == outputText {
			requireFit(t, out)
		}
	}
}

// TestWhatAMachineWithItsPlaceWaitsFor checks the description of
// what machine-controller-manager waits for.
func TestWhatAMachineWithItsPlaceWaitsFor(t *testing.T) {
	t.Parallel()

	deleted := time.Now()
	tests := map[string]struct {
		reason  string
		machine *machineState
		stage   spi.Stage
		down    bool
		want    string
	}{
		"NoMachine": {reason: "there is no Machine", stage: spi.StageScheduled},
		"Creating":  {reason: "that is said already", machine: &machineState{Phase: "Pending"}, stage: spi.StageCreating},
		"Pending":   {reason: "the guest has to join", machine: &machineState{Phase: "Pending"}, stage: spi.StageScheduled, want: "virtctl console"},
		"NoGuest":   {reason: "there is no console", machine: &machineState{Phase: "Pending"}, stage: spi.StageScheduled, down: true, want: "its guest does not run"},
		"Running":   {reason: "nothing", machine: &machineState{Phase: "Running"}, stage: spi.StageScheduled, want: "its Node is healthy"},
		"Deleted":   {reason: "the drain", machine: &machineState{Phase: "Terminating", Deleted: &deleted}, stage: spi.StageScheduled, want: "drains"},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			got := (&diagnosis{Machine: tc.machine}).node(&spi.Explanation{Stage: tc.stage, GuestRuns: !tc.down})
			require.Contains(t, got, tc.want, tc.reason)
			require.Equal(t, tc.want == "", got == "", tc.reason)
		})
	}
}

// TestDiagnosisText pins the text output for a machine that has been unscheduled for three minutes.
func TestDiagnosisText(t *testing.T) {
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
		Object: spi.ObjectName{Kind: "VirtualMachineInstance", Namespace: "machines", Name: "worker-1"}, Type: "PodScheduled", Status: "False",
		Reason: "Unschedulable", Since: at(100),
		Message: "0/9 nodes are available: 3 node(s) had untolerated taint(s), 6 Insufficient memory",
	}
	mount := spi.Sign{
		Object: spi.ObjectName{Kind: "Pod", Namespace: "machines", Name: "virt-launcher-worker-1-abcde"}, Type: "Event", Status: "Warning",
		Reason: "FailedMount", Since: at(90), Last: pointer(5), Message: "MountVolume.SetUp failed",
	}

	d := diagnosis{
		Name: "worker-1", Result: resultCauseFound,
		Machine: &machineState{
			Namespace: "shoot--foo--bar", Class: "worker-z1", Phase: "Pending", PhaseSince: pointer(180), Created: at(181),
			LastOperation: &lastOperation{
				Type: "Create", State: "Failed", Code: "ResourceExhausted", Updated: at(20),
				Description: "Provider error: machine codes error: code = [ResourceExhausted] message = [Unschedulable: 0/9 nodes are available]",
			},
		},
		Control: &controlState{
			Controllers: []controllerState{
				{Name: manager, Lease: "shoot--foo--bar/" + manager, State: running, Holder: "machine-controller-manager-7c9f_1", Renewed: pointer(1)},
				{Name: machineController, Lease: "shoot--foo--bar/" + machineController, State: running, Holder: "machine-controller-manager-7c9f_2", Renewed: pointer(2)},
			},
			Secrets: []secretState{
				{Namespace: "shoot--foo--bar", Name: "worker-z1", State: secretFound, Keys: []string{"userData"}},
				{Namespace: "shoot--foo--bar", Name: "cloudprovider", State: secretFound, Keys: []string{"kubeconfig"}},
			},
			LastUpdate: pointer(20),
		},
		Provider: &providerState{
			Server: "provider.example.com", Namespace: "machines", Stage: spi.StageCreating,
			Objects: []spi.Object{
				object("VirtualMachine", "worker-1", "ErrorUnschedulable", 180), image,
				object("VirtualMachineInstance", "worker-1", "Scheduling", 120),
			},
			Unread: []string{"list events: forbidden"},
		},
		Cause: &causeReport{
			Reason: "Unschedulable", Message: unscheduled.Message, Code: "ResourceExhausted",
			Remedy: "add provider nodes to region europe, zone z1, uncordon nodes there, or request less",
			Since:  pointer(100), Reported: pointer(70), Evidence: &unscheduled,
			Retry: &retryHint{When: "machine-controller-manager retries 5s after each failure; no command is needed", Period: "5s"},
		},
		Evidence: []spi.Sign{unscheduled, mount},
	}

	var buffer bytes.Buffer

	all := diagnoses{Machines: []diagnosis{d}}
	require.NoError(t, printDiagnoses(&buffer, &all, outputText, "--unschedulable-grace=30s --evacuation=false --virtual-machine-template=safe", now))

	out := buffer.String()
	requireFit(t, out)

	const golden = "testdata/diagnosis.golden.txt"
	if *update {
		require.NoError(t, os.WriteFile(golden, []byte(out), 0o600))
	}

	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), out)

	page, err := os.ReadFile("../../docs/diagnose.md")
	require.NoError(t, err)
	require.Contains(t, string(page), "```\n"+string(want)+"```\n", "the page shows it")
}

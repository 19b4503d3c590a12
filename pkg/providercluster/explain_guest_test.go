// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package providercluster

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/clock"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/providerapi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/hostile"
)

// TestExplainMachine_Console explains a machine whose guest runs, and has not joined.
func TestExplainMachine_Console(t *testing.T) {
	t.Parallel()

	const (
		running = `{"kind":"VirtualMachineInstance","apiVersion":"kubevirt.io/v1","metadata":{"name":"m","namespace":"machines","uid":"vmi",
			"creationTimestamp":"2026-01-02T03:04:05Z","labels":{"mcm.gardener.cloud/cluster":"c","mcm.gardener.cloud/role":"node"}},
			"status":{"phase":"Running","nodeName":"node-a","activePods":{"source":"node-b","target":"node-a","old":"node-a"}}}`
		pods = `{"kind":"PodList","apiVersion":"v1","items":[
			{"metadata":{"name":"launcher-1","namespace":"machines","uid":"source"},"spec":{"nodeName":"node-b","initContainers":[{"name":"guest-console-log"}]}},
			{"metadata":{"name":"launcher-2","namespace":"machines","uid":"old"},"spec":{"nodeName":"node-a"}},
			{"metadata":{"name":"launcher-3","namespace":"machines","uid":"target"},"spec":{"nodeName":"node-a","initContainers":[{"name":"guest-console-log"}]}}]}`
		crashes = `{"kind":"EventList","apiVersion":"v1","items":[{"metadata":{"name":"e","namespace":"machines"},"type":"Warning","reason":"Stopped","count":3,
			"message":"The VirtualMachineInstance crashed.","firstTimestamp":"2026-01-02T03:04:05Z","lastTimestamp":"NOW",
			"involvedObject":{"kind":"VirtualMachineInstance","namespace":"machines","name":"m"}}]}`
	)

	tests := map[string]struct {
		reason string
		// unwanted is set if the caller does not ask for the console, and denied if it has no permission.
		unwanted, deleting, denied bool
		// log is the log; empty if it may not be read.
		log, pods, events string
		want, waiting     string
		unread            string
	}{
		"Refused":  {reason: "the guest says why", log: "2026-01-02T03:05:05Z kubelet: failed to run Kubelet: cannot create certificate signing request with hunter2: Unauthorized\n", want: "GuestTokenRefused"},
		"Crashing": {reason: "virt-handler says it", log: "2026-01-02T03:05:05Z x\n", events: crashes, want: "GuestCrashing"},
		"Silent":   {reason: "a kernel without this console", log: "\n", waiting: "console=ttyS0"},
		"Boots":    {reason: "it may be slow", log: "2026-01-02T03:05:05Z Linux version 6.1\n", waiting: "scheduled to provider node node-a"},
		"Denied":   {reason: "an account without the permission", denied: true, unread: "kubernetes/diagnose grants it"},
		"Gone":     {reason: "the pod has ended meanwhile", unread: "read the guest's console: "},
		"Off":      {reason: "the class switches it off", log: "\n", pods: strings.ReplaceAll(pods, "guest-console-log", "x"), unread: "logSerialConsole"},
		"Unwanted": {reason: "it has joined, or the account is the driver's", unwanted: true, log: "2026-01-02T03:05:05Z no space left on device\n", waiting: "scheduled"},
		"Deleting": {reason: "its guest no longer matters", deleting: true, log: "2026-01-02T03:05:05Z no space left on device\n", waiting: "scheduled"},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			cluster := &answers{bodies: map[string]string{
				"m":           strings.NewReplacer(`"conditions"`, `"unused"`).Replace(ownVM),
				"pods":        pods,
				"datavolumes": `{"kind":"DataVolumeList","apiVersion":"cdi.kubevirt.io/v1beta1","items":[]}`,
				"events":      `{"kind":"EventList","apiVersion":"v1","items":[]}`,
			}}
			if tc.pods != "" {
				cluster.bodies["pods"] = tc.pods
			}

			if tc.events != "" {
				cluster.bodies["events"] = strings.ReplaceAll(tc.events, "NOW", time.Now().UTC().Format(time.RFC3339))
			}

			if tc.log != "" {
				cluster.bodies["log"] = tc.log
			}

			if !tc.denied {
				cluster.bodies["selfsubjectaccessreviews"] = `{"kind":"SelfSubjectAccessReview","apiVersion":"authorization.k8s.io/v1","status":{"allowed":true}}`
			}

			got := explainedConsole(t, evacuating{cluster, running}, &spi.ExplainMachineInput{Console: !tc.unwanted, Deleting: tc.deleting})
			require.Equal(t, spi.StageScheduled, got.Stage)
			require.Contains(t, got.Waiting, tc.waiting, tc.reason)
			require.Contains(t, strings.Join(got.Unread, "; "), tc.unread, tc.reason)

			if tc.want == "" {
				require.Nil(t, got.Cause, tc.reason)
			} else {
				require.Equal(t, tc.want, got.Cause.Err.Reason, tc.reason)
			}

			asks := !tc.unwanted && !tc.deleting
			require.Equal(t, asks && tc.pods == "" && !tc.denied, slices.Contains(cluster.asked, "log"), tc.reason)
			require.Equal(t, asks, slices.Contains(cluster.asked, "events?m"), tc.reason)

			if tc.want == "GuestTokenRefused" {
				require.Equal(t, "launcher-3", got.Cause.Sign.Object.Name, "neither the pod that a migration has left, nor one without the console")
				require.NotContains(t, got.Cause.Err.Message, "hunter2")

				got = explainedConsole(t, evacuating{cluster, running}, &spi.ExplainMachineInput{Console: true, ConsoleLines: true})
				require.Contains(t, got.Cause.Err.Message, "hunter2", "whole lines are wanted")
			}
		})
	}
}

// explainedConsole completes the input, and returns the explanation.
func explainedConsole(t *testing.T, cluster http.RoundTripper, in *spi.ExplainMachineInput) *spi.Explanation {
	t.Helper()

	clients := providerapi.NewCache(providerapi.Options{
		QPS:           100,
		Burst:         200,
		WrapTransport: func(http.RoundTripper) http.RoundTripper { return cluster },
	})

	in.Kubeconfig = hostile.KubeconfigOf(t, &clientcmdapi.Cluster{Server: "https://provider.example.com"})
	in.Name = "m"
	in.Identity = spi.Identity{Cluster: "c", Role: "node"}

	got, err := NewExplainer(clients, clock.RealClock{}, 30*time.Second).ExplainMachine(t.Context(), in)
	require.NoError(t, err)

	return got
}

// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/commands"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/tools/output"
)

// TestNewCommand_OtherServer diagnoses a Machine that has vanished from the cluster of
// --provider-kubeconfig, whose URL differs from that of the MachineClass's Secret.
func TestNewCommand_OtherServer(t *testing.T) {
	t.Parallel()

	// installed returns a provider cluster without machines.
	installed := func(uid string) string {
		return commands.Cluster{"/apis/kubevirt.io/v1/kubevirts": `{"apiVersion":"kubevirt.io/v1","kind":"KubeVirtList","items":[
			{"metadata":{"name":"kubevirt","namespace":"kubevirt","uid":"` + uid + `"}}]}`}.Provider(t)
	}

	tests := map[string]struct {
		reason string
		secret string
		code   int
		want   []string
		absent string
	}{
		"Same": {
			reason: "a cluster may have several URLs",
			secret: installed("a"),
			code:   output.ExitInvalid,
			want:   []string{"CAUSE MachineVanished"},
			absent: "NOT DIAGNOSED",
		},
		"Other": {
			reason: "the machine is on the other cluster",
			secret: installed("b"),
			code:   output.ExitUsage,
			absent: "MachineVanished",
			want:   []string{"NOT DIAGNOSED", "which is not the cluster of the MachineClass's Secret, https://127.0.0.1:"},
		},
		"Unknown": {
			reason: "they cannot be compared",
			secret: strings.Replace(commands.GoodKubeconfig, "https://kubevirt.example.com", "https://127.0.0.1:1", 1),
			code:   output.ExitUsage,
			want: []string{
				"NOT DIAGNOSED", "which may not be the cluster of the MachineClass's Secret, https://127.0.0.1:1", "if it is that cluster, the cause is MachineVanished: ",
			},
		},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			shoot := commands.ShootWith(tc.secret).Leased(commands.JustNow, commands.JustNow)
			shoot[commands.MCMPath+"machines/m"] = strings.Replace(shoot[commands.MCMPath+"machines/m"], `"spec":{`, `"spec":{"providerID":"kubevirt://m",`, 1)

			out, err := run(t, "diagnose", "--kubeconfig", shoot.Control(t), "--provider-kubeconfig", commands.Write(t, "other.yaml", installed("a")), "m")
			require.Equal(t, tc.code, output.ExitCode(err), out)

			text := strings.Join(strings.Fields(out), " ")
			for _, want := range tc.want {
				require.Contains(t, text, want, tc.reason)
			}

			if tc.absent != "" {
				require.NotContains(t, text, tc.absent, tc.reason)
			}
		})
	}
}

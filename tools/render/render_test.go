// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/commands"
)

func TestRender_ShippedClass(t *testing.T) {
	t.Parallel()

	out, err := run(t, "", "render", "-f", commands.Shipped, "--class", "example-worker-z2", "--machine", "worker-1")
	require.NoError(t, err)
	require.Contains(t, out, "kind: Secret")
	require.Contains(t, out, "userdata: REDACTED")
	require.Contains(t, out, "kind: VirtualMachine")
	require.Contains(t, out, "- zone-b")
}

// severalNetworks makes the driver generate network data, and has
// an SSH key, which is stored in a Secret.
const severalNetworks = commands.Valid + `  networks: [{name: tenant/vlan-10}]
  sshKeys: ["ssh-ed25519 AAAA someone"]
`

func TestRender_Redacted(t *testing.T) {
	t.Parallel()

	secret := "---\nkind: Secret\nmetadata: {name: s}\nstringData: {userData: t0p-secret}\n"

	out, err := run(t, severalNetworks+secret, "render", "-f", "-", "--machine", "worker-1")
	require.NoError(t, err)
	require.Contains(t, out, "userdata: REDACTED")
	require.Contains(t, out, "dhcp4: true", "the network data is readable")
	require.Contains(t, out, "ssh-ed25519 AAAA someone")
	require.NotContains(t, out, "t0p-secret")
}

func TestRender_JSON(t *testing.T) {
	t.Parallel()

	out, err := run(t, severalNetworks, "render", "-f", "-", "--machine", "worker-1", "-o", "json")
	require.NoError(t, err)

	var list struct {
		Kind  string `json:"kind"`
		Items []struct {
			Kind string `json:"kind"`
		} `json:"items"`
	}

	require.NoError(t, json.Unmarshal([]byte(out), &list))
	require.Equal(t, "List", list.Kind, "kubectl applies a List")
	require.Equal(t, "VirtualMachine", list.Items[len(list.Items)-1].Kind, "what it refers to comes first")
}

// TestRender_KubectlFormats prints the objects by name and with templates, as kubectl does.
func TestRender_KubectlFormats(t *testing.T) {
	t.Parallel()

	for format, want := range map[string]string{
		"name":                       "secret/worker-1-userdata\nvirtualmachine.kubevirt.io/worker-1\n",
		"jsonpath={.items[*].kind}":  "Secret VirtualMachine",
		"go-template={{len .items}}": "2",
	} {
		out, err := run(t, commands.Valid, "render", "-f", "-", "--machine", "worker-1", "-o", format)
		require.NoError(t, err, format)
		require.Equal(t, want, out)
	}
}

func TestRender_Text(t *testing.T) {
	t.Parallel()

	spec := strings.Replace(commands.Valid, "containerDisk: {image: example.com/image}",
		`source: {http: {url: "https://images.example.com/a", extraHeaders: ["X-Token: t0p-secret"]}}, storage: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 20Gi}}}`, 1) +
		`  cpu: {sockets: 2, cores: 1}
  networks: [{name: tenant/vlan-10, default: true, sriov: {}}, {name: storage, mac: Stable, binding: {name: plug}}]
  additionalVolumes:
  - {name: data, dataVolume: {sourceRef: {kind: DataSource, namespace: images, name: data}, storage: {volumeMode: Block, resources: {requests: {storage: 5Gi}}}}}
  - {name: config, volumeSource: {configMap: {name: settings}}}
`

	out, err := run(t, spec, "render", "-f", "-", "--machine", "worker-1", "--provider-namespace", "machines", "-o", "text")
	require.NoError(t, err)

	out = strings.Join(strings.Fields(out), " ")
	require.NotContains(t, out, "t0p-secret")

	for _, line := range []string{
		"VirtualMachine machines/worker-1 of MachineClass c",
		" zone z ",
		"cpu cores 1, sockets 2",
		"memory guest 1Gi",
		"volume dataVolume.name worker-1-00000-root-disk, name root-disk",
		"DataVolume worker-1-00000-root-disk: 20Gi, from pvc.name golden-",
		"golden image golden-", ": 20Gi, from http.url https://images.example.com/a ",
		"DataVolume worker-1-00000-data: 5Gi, from kind DataSource, name data, namespace images ",
		"volume configMap.name settings, name config",
		"network multus.default true, multus.networkName tenant/vlan-10, name default", "interface name default, sriov",
		"network multus.networkName storage, name net1", "interface binding.name plug, macAddress 02:",
		"worker-1-userdata with networkdata userdata",
		"mcm.gardener.cloud/cluster=c",
		"warning nodeTemplate: is missing",
		"warning providerSpec.rootVolume.storage.accessModes: prevents live migration",
	} {
		require.Contains(t, out, line)
	}
}

func TestRender_ContainerDisk(t *testing.T) {
	t.Parallel()

	out, err := run(t, commands.Valid, "render", "-f", "-", "--machine", "worker-1", "-o", "text")
	require.NoError(t, err)
	require.Contains(t, out, "containerDisk.image example.com/image, name root-disk\n")
	require.Contains(t, out, "run strategy            Once\n")
}

func TestRender_Errors(t *testing.T) {
	t.Parallel()

	class := func(spec string) string { return commands.Head + "providerSpec: " + spec }

	tests := map[string]struct {
		reason string
		stdin  string
		args   []string
		want   string
	}{
		"None":              {reason: "what there is, is named", stdin: "kind: Secret\ndata: []\n", want: "no MachineClass, but objects of kind Secret"},
		"NoYAML":            {reason: "the file is named", stdin: "a: [", want: "standard input: near line 1"},
		"UnknownClassField": {reason: "the class is read strictly", stdin: class("{}") + "\nprovidor: kubevirt", want: "providor"},
		"BadSpec":           {reason: "all errors are listed", stdin: class("{zoen: a}"), want: "providerSpec.zoen: Forbidden: unknown field; did you mean \"zone\"?"},
		"BadMachine":        {reason: "its name becomes a node's", stdin: commands.Valid, args: []string{"--machine", "m.1"}, want: "m.1"},
		"ForeignProvider":   {reason: "the sidecar would refuse it", stdin: commands.Valid + "provider: aws\n", want: `"aws"`},
		"SameNames": {
			reason: "--class cannot tell them apart",
			stdin:  commands.Valid + "---\n" + commands.Valid,
			args:   []string{"--class", "c"},
			want:   "several MachineClasses c",
		},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			_, err := run(t, tc.stdin, append([]string{"render", "-f", "-", "--machine", "m"}, tc.args...)...)
			require.ErrorContains(t, err, tc.want, tc.reason)
		})
	}
}

// TestFields_OmitsCredentials has user data in a volume, as a virtualMachineTemplate may set it.
func TestFields_OmitsCredentials(t *testing.T) {
	t.Parallel()

	volume := map[string]any{"name": "init", "cloudInitNoCloud": map[string]any{"userData": "t0p-secret", "networkDataBase64": "t0p-secret"}}
	require.Equal(t, "name init", fields(volume))
}

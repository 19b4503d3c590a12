// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

const root = ".."

const valid = `
region: local
zone: zone-a
tags: {mcm.gardener.cloud/cluster: shoot--p--s, mcm.gardener.cloud/role: node}
memory: {guest: 2Gi}
rootVolume: {sourceRef: {kind: DataSource, name: worker}, storage: {resources: {requests: {storage: 20Gi}}}}
`

// compile returns the schema of a kind.
func compile(t *testing.T, kind string) *jsonschema.Schema {
	t.Helper()

	compiled, err := jsonschema.NewCompiler().Compile(filepath.Join(root, "docs/schemas", strings.ToLower(kind)+"_v1alpha1.json"))
	require.NoError(t, err)

	return compiled
}

// value returns YAML as the validator reads JSON.
func value(t *testing.T, text []byte) any {
	t.Helper()

	raw, err := yaml.YAMLToJSON(text)
	require.NoError(t, err)

	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	require.NoError(t, err)

	return value
}

// TestGenerate_ShippedSchemas requires the schemas in docs/schemas to be up to date.
func TestGenerate_ShippedSchemas(t *testing.T) {
	t.Parallel()

	folder := t.TempDir()
	require.NoError(t, generate(root, "./api/v1alpha1", folder, []string{"ProviderSpec"}))
	require.NoError(t, generate(root+"/extension", "./pkg/apis/kubevirt/v1alpha1", folder, []string{
		"InfrastructureConfig", "ControlPlaneConfig", "WorkerConfig", "CloudProfileConfig",
	}))

	files, err := os.ReadDir(folder)
	require.NoError(t, err)
	require.Len(t, files, 5)

	for _, file := range files {
		generated, err := os.ReadFile(filepath.Join(folder, file.Name()))
		require.NoError(t, err)

		shipped, err := os.ReadFile(filepath.Join(root, "docs/schemas", file.Name()))
		require.NoError(t, err)
		require.True(t, bytes.Equal(generated, shipped), "%s: run `make generate`", file.Name()) // Equal would print both.
	}

	require.ErrorContains(t, generate(root, "./api/...", folder, nil), "must be one package")
	require.ErrorContains(t, generate(root, "./api/v1alpha1", folder, []string{"Missing"}), "some types have no schema")
}

// TestSchemas_AcceptShippedManifests validates the specs of the driver's golden files, and all
// MachineClasses and configs of the shipped manifests.
func TestSchemas_AcceptShippedManifests(t *testing.T) {
	t.Parallel()

	providerSpec := compile(t, "ProviderSpec")
	machineClass := compile(t, "MachineClass")

	specs, err := filepath.Glob(root + "/pkg/render/testdata/*.spec.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, specs)

	for _, path := range specs {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NoError(t, providerSpec.Validate(value(t, text)), path)
	}

	kinds := map[string]int{}

	for _, folder := range []string{"kubernetes", "extension/example"} {
		for path, document := range documents(t, filepath.Join(root, folder)) {
			if kind, _ := document["kind"].(string); kind == "MachineClass" {
				raw, err := json.Marshal(document)
				require.NoError(t, err)
				require.NoError(t, machineClass.Validate(value(t, raw)), path)

				kinds[kind]++
			}

			requireConfigs(t, path, document, kinds)
		}
	}

	require.GreaterOrEqual(t, kinds["MachineClass"], 4)
	require.Len(t, kinds, 6, "MachineClass and the five configs: %v", kinds)
}

// requireConfigs validates the configs of the extension in an object, and counts them.
func requireConfigs(t *testing.T, path string, object map[string]any, kinds map[string]int) {
	t.Helper()

	kind, _ := object["kind"].(string)
	if strings.HasSuffix(kind, "Config") && strings.HasPrefix(object["apiVersion"].(string), "kubevirt.provider.extensions.gardener.cloud/") {
		raw, err := json.Marshal(object)
		require.NoError(t, err)
		require.NoError(t, compile(t, kind).Validate(value(t, raw)), path)

		kinds[kind]++
	}

	for _, field := range object {
		items, _ := field.([]any)
		for _, item := range append(items, field) {
			if nested, ok := item.(map[string]any); ok {
				requireConfigs(t, path, nested, kinds)
			}
		}
	}
}

// documents yields the objects of the YAML files below a folder.
func documents(t *testing.T, folder string) func(yield func(path string, document map[string]any) bool) {
	t.Helper()

	return func(yield func(string, map[string]any) bool) {
		require.NoError(t, filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".yaml" {
				return err
			}

			raw, err := os.ReadFile(path)
			require.NoError(t, err)

			for decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(raw), len(raw)+1); ; {
				var document map[string]any

				err := decoder.Decode(&document)
				if errors.Is(err, io.EOF) {
					return nil
				}

				require.NoError(t, err, path)

				if !yield(path, document) {
					return fs.SkipAll
				}
			}
		}))
	}
}

func TestProviderSpecSchema_Refuses(t *testing.T) {
	t.Parallel()

	providerSpec := compile(t, "ProviderSpec")
	machineClass := compile(t, "MachineClass")

	tests := map[string]struct {
		reason string
		change string
		at     string
	}{
		"UnknownField":   {reason: "the decoder is strict", change: "zoen: a", at: "at ''"},
		"OtherCase":      {reason: "and case-sensitive", change: "sshkeys: []", at: "'sshkeys' not allowed"},
		"UnknownInside":  {reason: "also in KubeVirt's types", change: "cpu: {core: 1}", at: "at '/cpu'"},
		"Embedded":       {reason: "and in embedded types", change: "rootVolume: {sourceref: {}}", at: "at '/rootVolume'"},
		"WrongType":      {reason: "a list is not an object", change: "networks: {name: a}", at: "at '/networks'"},
		"QuantityObject": {reason: "a quantity is a string or a number", change: "memory: {guest: {}}", at: "at '/memory/guest'"},
		"QuantityUnit":   {reason: "with a unit of Kubernetes", change: "memory: {guest: 8 GB}", at: "at '/memory/guest'"},
		"MissingTag":     {reason: "machines are listed by the tags", change: "tags: {mcm.gardener.cloud/role: node}", at: "at '/tags'"},
		"CloudInitType":  {reason: "there are two types", change: "cloudInit: {type: nocloud}", at: "at '/cloudInit/type'"},
		"MAC":            {reason: "a policy, not an address", change: "networks: [{name: a, mac: '02:00:00:00:00:01'}]", at: "at '/networks/0/mac'"},
		"RunStrategy":    {reason: "a worker must run", change: "virtualMachineTemplate: {spec: {runStrategy: Halted}}", at: "/runStrategy'"},
		"Running":        {reason: "the driver always refuses it", change: "virtualMachineTemplate: {spec: {running: true}}", at: "/running'"},
		"VolumeName":     {reason: "a volume has a name", change: "additionalVolumes: [{}]", at: "at '/additionalVolumes/0'"},
		"Kind":           {reason: "it is a ProviderSpec", change: "kind: MachineClass", at: "at '/kind'"},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			var spec, change map[string]any

			require.NoError(t, yaml.Unmarshal([]byte(valid), &spec))
			require.NoError(t, yaml.Unmarshal([]byte(tc.change), &change))
			maps.Copy(spec, change)

			raw, err := json.Marshal(spec)
			require.NoError(t, err)
			require.ErrorContains(t, providerSpec.Validate(value(t, raw)), tc.at, tc.reason)

			raw, err = json.Marshal(map[string]any{
				"apiVersion":   "machine.sapcloud.io/v1alpha1",
				"kind":         "MachineClass",
				"metadata":     map[string]any{"name": "c"},
				"secretRef":    map[string]any{"name": "s", "namespace": "ns"},
				"providerSpec": spec,
			})
			require.NoError(t, err)
			require.ErrorContains(t, machineClass.Validate(value(t, raw)), "at '/providerSpec", tc.reason)
		})
	}

	require.NoError(t, providerSpec.Validate(value(t, []byte(valid))))

	for _, name := range []string{"region", "zone", "tags", "rootVolume"} {
		var spec map[string]any

		require.NoError(t, yaml.Unmarshal([]byte(valid), &spec))
		delete(spec, name)
		require.ErrorContains(t, providerSpec.Validate(spec), "missing property '"+name+"'")
	}
}

func TestConfigSchemas_Refuse(t *testing.T) {
	t.Parallel()

	const apiVersion = "apiVersion: kubevirt.provider.extensions.gardener.cloud/v1alpha1\n"

	for kind, tc := range map[string]struct{ fields, at string }{
		"InfrastructureConfig": {"networks: {networks: []}", "at '/networks'"},
		"ControlPlaneConfig":   {"cloudController: {}", "'cloudController' not allowed"},
		"WorkerConfig":         {"devices: {disk: []}", "at '/devices'"},
		"CloudProfileConfig":   {"volumeClasses: [{name: a, reclaimPolicy: Recycle}]", "at '/volumeClasses/0/reclaimPolicy'"},
	} {
		compiled := compile(t, kind)
		require.NoError(t, compiled.Validate(value(t, []byte(apiVersion+"kind: "+kind))))
		require.ErrorContains(t, compiled.Validate(value(t, []byte(apiVersion+"kind: "+kind+"\n"+tc.fields))), tc.at)
		require.ErrorContains(t, compiled.Validate(value(t, []byte(apiVersion+"kind: Other"))), "at '/kind'")
	}
}

// TestSchemas_AgreeWithDecoders validates the inputs that the decoders are tested with. A schema may accept an input
// that a decoder refuses only if the input says why.
func TestSchemas_AgreeWithDecoders(t *testing.T) {
	t.Parallel()

	raw, err := os.ReadFile("testdata/inputs.yaml")
	require.NoError(t, err)

	var table struct {
		Inputs map[string][]struct {
			Valid      bool            `json:"valid"`
			Difference string          `json:"difference"`
			Input      json.RawMessage `json:"input"`
		} `json:"inputs"`
	}
	require.NoError(t, yaml.Unmarshal(raw, &table))
	require.Len(t, table.Inputs, 5)

	for kind, inputs := range table.Inputs {
		compiled := compile(t, kind)

		for _, tc := range inputs {
			err := compiled.Validate(value(t, tc.Input))
			require.Equal(t, tc.Valid || tc.Difference != "", err == nil, "%s: %v", tc.Input, err)
		}
	}
}

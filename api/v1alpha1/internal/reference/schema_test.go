package main

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/kubernetes"
)

const valid = `
region: local
zone: zone-a
tags: {mcm.gardener.cloud/cluster: shoot--p--s, mcm.gardener.cloud/role: node}
memory: {guest: 2Gi}
rootVolume: {sourceRef: {kind: DataSource, name: worker}, storage: {resources: {requests: {storage: 20Gi}}}}
`

// TestSchemaAcceptsGoldenSpecs validates the specs of the driver's golden files.
func TestSchemaAcceptsGoldenSpecs(t *testing.T) {
	t.Parallel()

	root := readSchema(t)
	specs, err := filepath.Glob(repository + "pkg/render/testdata/*.spec.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, specs)

	for _, path := range specs {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Empty(t, root.judge(t, string(text)), path)
	}
}

func TestSchemaAcceptsShippedClasses(t *testing.T) {
	t.Parallel()

	root := readSchema(t)
	judged := 0

	err := fs.WalkDir(kubernetes.Manifests, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}

		raw, err := fs.ReadFile(kubernetes.Manifests, path)
		require.NoError(t, err)

		documents := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(raw), len(raw)+1)

		for {
			var document map[string]any

			err := documents.Decode(&document)
			if errors.Is(err, io.EOF) {
				return nil
			}

			require.NoError(t, err)

			if spec, ok := document["providerSpec"]; ok {
				require.Empty(t, root.faults(t, root.schema, spec, "providerSpec"), path)

				judged++
			}
		}
	})
	require.NoError(t, err)
	require.GreaterOrEqual(t, judged, 4)
}

func TestSchemaRefuses(t *testing.T) {
	t.Parallel()

	root := readSchema(t)
	require.Empty(t, root.judge(t, valid))

	tests := map[string]struct {
		reason string
		change string
		at     string
	}{
		"UnknownField":   {reason: "the decoder is strict", change: "zoen: a", at: "zoen"},
		"OtherCase":      {reason: "and case-sensitive", change: "sshkeys: []", at: "sshkeys"},
		"UnknownInside":  {reason: "also in KubeVirt's types", change: "cpu: {core: 1}", at: "cpu.core"},
		"WrongType":      {reason: "a list is not an object", change: "networks: {name: a}", at: "networks"},
		"QuantityObject": {reason: "a quantity is a string or a number", change: "memory: {guest: {}}", at: "memory.guest"},
		"MissingTag":     {reason: "machines are listed by the tags", change: "tags: {mcm.gardener.cloud/role: node}", at: "tags"},
		"CloudInitType":  {reason: "there are two types", change: "cloudInit: {type: nocloud}", at: "cloudInit.type"},
		"MAC":            {reason: "a policy, not an address", change: "networks: [{name: a, mac: '02:00:00:00:00:01'}]", at: "networks[0].mac"},
		"RunStrategy":    {reason: "a worker must run", change: "virtualMachineTemplate: {spec: {runStrategy: Halted}}", at: "virtualMachineTemplate.spec.runStrategy"},
		"Running":        {reason: "the driver always refuses it", change: "virtualMachineTemplate: {spec: {running: true}}", at: "virtualMachineTemplate.spec.running"},
		"VolumeName":     {reason: "a volume has a name", change: "additionalVolumes: [{}]", at: "additionalVolumes[0]"},
		"Kind":           {reason: "it is a ProviderSpec", change: "kind: MachineClass", at: "kind"},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			var spec, change map[string]any

			require.NoError(t, yaml.Unmarshal([]byte(valid), &spec))
			require.NoError(t, yaml.Unmarshal([]byte(tc.change), &change))
			maps.Copy(spec, change)

			require.Equal(t, []string{tc.at}, root.faults(t, root.schema, spec, ""), tc.reason)
		})
	}

	for _, name := range []string{"region", "zone", "tags", "rootVolume"} {
		var spec map[string]any

		require.NoError(t, yaml.Unmarshal([]byte(valid), &spec))
		delete(spec, name)
		require.NotEmpty(t, root.faults(t, root.schema, spec, ""), "%s is required", name)
	}
}

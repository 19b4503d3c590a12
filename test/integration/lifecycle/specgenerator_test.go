// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"math/rand/v2"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
)

// feature is an optional part of a ProviderSpec, in YAML. For <a|b>, one of
// the alternatives is chosen.
type feature struct {
	// name is unique. Features with the same text before a slash exclude each other.
	name string
	yaml string
	// without are prefixes of the names of features that contradict this one.
	without []string
}

// tree is a ProviderSpec before its conversion to JSON.
type tree map[string]any

// generate returns a valid ProviderSpec with the first feature, a few random ones of the list,
// and the required fields.
func generate(t *testing.T, r *rand.Rand, first feature, list []feature) (spec tree, used []string) {
	t.Helper()

	chosen := []feature{first}

	const most = 6
	for range r.IntN(most) {
		chosen = add(chosen, list[r.IntN(len(list))])
	}

	for _, needed := range [][]feature{rootVolumes(), memories} {
		for _, i := range r.Perm(len(needed)) {
			chosen = add(chosen, needed[i])
		}
	}

	spec = tree{}
	merge(spec, read(t, r, baseSpec))

	for _, f := range chosen {
		merge(spec, read(t, r, f.yaml))
		used = append(used, f.name)
	}

	return spec, used
}

const baseSpec = `{region: local, zone: <zone-a|zone-b|default>, tags: {mcm.gardener.cloud/cluster: shoot--p--s, mcm.gardener.cloud/role: node}}`

// add adds a feature, unless it contradicts a chosen one.
func add(chosen []feature, f feature) []feature {
	for _, other := range chosen {
		if group(f) == group(other) || excludes(f, other) || excludes(other, f) {
			return chosen
		}
	}

	return append(chosen, f)
}

func group(f feature) string {
	before, _, _ := strings.Cut(f.name, "/")

	return before
}

func excludes(f, other feature) bool {
	return slices.ContainsFunc(f.without, func(prefix string) bool { return strings.HasPrefix(other.name, prefix) })
}

var alternatives = regexp.MustCompile(`<[^<>]*>`)

func read(t *testing.T, r *rand.Rand, text string) tree {
	t.Helper()

	chosen := alternatives.ReplaceAllStringFunc(text, func(s string) string {
		choice := strings.Split(strings.Trim(s, "<>"), "|")

		return choice[r.IntN(len(choice))]
	})

	part := tree{}
	require.NoError(t, yaml.Unmarshal([]byte(chosen), &part), chosen)

	return part
}

// merge merges objects, and appends lists.
func merge(into, from map[string]any) {
	for key, value := range from {
		switch value := value.(type) {
		case map[string]any:
			under, _ := into[key].(map[string]any)
			if under == nil {
				under = map[string]any{}
			}

			merge(under, value)
			into[key] = under
		case []any:
			under, _ := into[key].([]any)
			into[key] = append(under, value...)
		default:
			into[key] = value
		}
	}
}

// features are all possible parts of a spec, except newerFeatures. They include root volumes and memory, so that each of
// these is the first feature once.
var features = slices.Concat(rootVolumes(), memories, volumes(), deviceFeatures, networkFeatures, guestFeatures, placementFeatures, templateFeatures)

const (
	size   = `resources: {requests: {storage: 20Gi}}`
	claims = `<storage: {` + size + `}|storage: {storageClassName: fast, volumeMode: Block, accessModes: [ReadWriteMany], ` + size + `}` +
		`|storage: {accessModes: [ReadWriteOnce, ReadOnlyMany], ` + size + `}|pvc: {accessModes: [ReadWriteOnce], ` + size + `}` +
		`|pvc: {storageClassName: wait, volumeMode: Filesystem, accessModes: [ReadWriteMany], ` + size + `}>`
)

// imports are sources outside the provider cluster.
var imports = map[string]string{
	"http":         `http: {url: "<https|http>://images.example.com:8443/worker.qcow2?a=b"}`,
	"http-secrets": `http: {url: "https://images.example.com/w", secretRef: keys, certConfigMap: ca, extraHeaders: ["A: b"], secretExtraHeaders: [headers]}`,
	"registry":     `registry: {url: "docker://registry.example.com/worker:1", secretRef: keys, certConfigMap: ca, pullMethod: <pod|node>, platform: {architecture: amd64}}`,
	"oci-archive":  `registry: {url: "oci-archive:///images/worker.tar"}`,
	"image-stream": `registry: {imageStream: worker, pullMethod: node}`,
	"s3":           `s3: {url: "https://s3.example.com/images/worker", secretRef: keys, certConfigMap: ca}`,
	"gcs":          `gcs: {url: "<gs|https>://images/worker", secretRef: keys}`,
	"imageio":      `imageio: {url: "https://ovirt.example.com/api", diskId: "1", secretRef: keys, certConfigMap: ca}`,
	"vddk":         `vddk: {url: "https://vcenter.example.com", uuid: u, backingFile: f, thumbprint: t, secretRef: keys, initImageURL: registry.example.com/vddk, extraArgs: args}`,
}

// clones are sources in the provider cluster. Their size is optional.
var clones = map[string]string{
	"pvc":        `source: {pvc: {name: image}}`,
	"pvc-other":  `source: {pvc: {namespace: default, name: image}}`,
	"snapshot":   `source: {snapshot: {name: image}}`,
	"source-ref": `sourceRef: {kind: DataSource, name: worker}`,
}

const dataVolumeOptions = `<preallocation: true|priorityClassName: high|contentType: kubevirt|annotations: {example.com/owner: me, cdi.kubevirt.io/storage.usePopulator: "false"}>`

func rootVolumes() []feature {
	list := []feature{
		{name: "root/container", yaml: `rootVolume: {containerDisk: {image: registry.example.com/worker, imagePullPolicy: <Always|IfNotPresent>, imagePullSecret: keys, path: /disk/worker.img}}`},
		{
			name:    "root/clone-live-migrate",
			without: []string{"primary", "eviction", "gpus", "volume", "hyperv"},
			yaml: `{rootVolume: {source: {pvc: {name: image}}, storage: {accessModes: [ReadWriteMany]}},
				networks: [<{pod: {}, masquerade: {}}|{pod: {allowBridgeLiveMigration: true}, bridge: {}}>],
				virtualMachineTemplate: {spec: {template: {spec: {evictionStrategy: LiveMigrate}}}}}`,
		},
	}
	list = append(list, feature{
		name:    "root/import-checksum",
		without: []string{"golden/none"}, // CDI knows the field since 1.65, KubeVirt does not.
		yaml:    `rootVolume: {source: {http: {url: "https://h/i", checksum: "md5:0123456789abcdef0123456789abcdef"}}, ` + claims + `}`,
	})

	for name, source := range imports {
		list = append(list, feature{name: "root/import-" + name, yaml: `rootVolume: {source: {` + source + `}, ` + claims + `, ` + dataVolumeOptions + `}`})
	}
	for name, source := range clones {
		list = append(list,
			feature{name: "root/clone-" + name, yaml: `rootVolume: {` + source + `, ` + claims + `}`},
			feature{name: "root/clone-whole-" + name, yaml: `rootVolume: {` + source + `, storage: <{}|{storageClassName: fast}|{accessModes: [ReadWriteOncePod]}>}`},
		)
	}

	return sorted(list)
}

// sorted makes the order of features from maps deterministic, so that only the seed decides.
func sorted(list []feature) []feature {
	slices.SortFunc(list, func(a, b feature) int { return strings.Compare(a.name, b.name) })

	return list
}

var memories = []feature{
	{name: "memory/guest", yaml: `memory: {guest: <512Mi|2Gi|64Gi>}`},
	{name: "memory/max-guest", yaml: `memory: {guest: 2Gi, maxGuest: 8Gi}`},
	{name: "memory/hugepages", yaml: `memory: {guest: 4Gi, hugepages: {pageSize: <2Mi|1Gi>}}`},
	{name: "memory/request", yaml: `resources: {requests: {memory: 4Gi}, overcommitGuestOverhead: <true|false>}`},
	{name: "memory/limit", yaml: `resources: {limits: {memory: 4Gi}}`},
	{name: "memory/overcommitted", yaml: `{memory: {guest: 4Gi}, resources: {requests: {memory: 3Gi}, limits: {memory: <4Gi|5Gi>}}}`},
	{name: "memory/template", yaml: instance(`domain: {memory: {guest: 4Gi}}`)},
	{name: "memory/template-resources", yaml: instance(`domain: {resources: {requests: {memory: 4Gi, cpu: "1"}}}`), without: []string{"resources"}},
	{
		name:    "memory/dedicated",
		without: []string{"cpu", "resources"},
		yaml: `{cpu: {cores: 2, dedicatedCpuPlacement: true, isolateEmulatorThread: <true|false>}, memory: {guest: 4Gi},
			resources: {requests: {cpu: "2", memory: 4Gi}, limits: {cpu: "2", memory: 4Gi}}}`,
	},
	{
		name:    "memory/numa",
		without: []string{"cpu", "resources"},
		yaml: `{cpu: {sockets: 1, cores: 4, dedicatedCpuPlacement: true, numa: {guestMappingPassthrough: {}}, realtime: <{}|{mask: "0-1"}>},
			memory: {guest: 4Gi, hugepages: {pageSize: 2Mi}}}`,
	},
	{
		name:    "memory/instancetype",
		without: []string{"cpu", "resources"},
		yaml:    `virtualMachineTemplate: {spec: {instancetype: {kind: VirtualMachineInstancetype, name: <worker|missing>}}}`,
	},
	{
		name:    "memory/cluster-instancetype",
		without: []string{"cpu", "resources"},
		yaml:    `virtualMachineTemplate: {spec: {instancetype: {name: missing}}}`,
	},
}

// volumes returns additional volumes, each with another name, and some with a disk.
func volumes() []feature {
	var list []feature

	for name, source := range imports {
		list = append(list, feature{name: "volume-" + name, yaml: dataVolume(name, `source: {`+source+`}, `+claims)})
	}

	for name, source := range clones {
		list = append(list, feature{name: "volume-" + name, yaml: dataVolume(name, source+`, `+claims+`, `+dataVolumeOptions)})
	}

	list = append(list,
		feature{name: "volume-blank", yaml: dataVolume("blank", `source: {blank: {}}, `+claims+`, `+dataVolumeOptions)},
		feature{name: "volume-claim", yaml: existing("claim", `persistentVolumeClaim: {claimName: shared, readOnly: <true|false>}`)},
		feature{name: "volume-configmap", yaml: existing("config", `configMap: {name: config, volumeLabel: cfg, optional: <true|false>}`)},
		feature{name: "volume-secret", yaml: existing("keys", `secret: {secretName: keys, volumeLabel: keys, optional: <true|false>}`)},
		feature{name: "volume-disk", yaml: withDisk("serial", `serial: A.b_1, cache: <none|writethrough|writeback>, io: <native|threads>, disk: {bus: <virtio|scsi|sata|usb>}`)},
		feature{name: "volume-read-only", yaml: withDisk("read-only", `errorPolicy: <stop|ignore|report|enospace>, disk: {bus: <virtio|scsi>, readonly: true}`)},
		feature{name: "volume-lun", yaml: withDisk("lun", `lun: {bus: <scsi|sata>, readonly: <true|false>}`)},
		feature{name: "volume-cdrom", yaml: withDisk("cdrom", `cdrom: {bus: <sata|scsi|usb>, readonly: <true|false>, tray: <open|closed>}`)},
		feature{name: "volume-shared", yaml: withDisk("shareable", `shareable: true, cache: none, blockSize: <{matchVolume: {enabled: true}}|{custom: {logical: 512, physical: 4096}}>`)},
	)

	return sorted(list)
}

func dataVolume(name, spec string) string {
	return `additionalVolumes: [{name: ` + name + `, dataVolume: {` + spec + `}}]`
}

func existing(name, source string) string {
	return `additionalVolumes: [{name: ` + name + `, volumeSource: {` + source + `}}]`
}

func withDisk(name, disk string) string {
	return `{additionalVolumes: [{name: ` + name + `, dataVolume: {source: {blank: {}}, ` + claims + `}}], devices: {disks: [{name: ` + name + `, ` + disk + `}]}}`
}

// instance returns a part of the spec of the template's VirtualMachineInstance.
func instance(spec string) string {
	return `virtualMachineTemplate: {spec: {template: {spec: {` + spec + `}}}}`
}

// TestGeneratorKnowsEveryField keeps the generator complete when the ProviderSpec grows.
func TestGeneratorKnowsEveryField(t *testing.T) {
	t.Parallel()

	all := tree{}

	var newer []feature
	for _, f := range newerFeatures {
		newer = append(newer, f.feature)
	}

	const tries = 20 // Enough to generate each of the few alternatives.
	for i := range tries {
		for _, f := range slices.Concat(features, newer) {
			merge(all, read(t, rand.New(rand.NewPCG(uint64(i), 1)), f.yaml))
		}

		merge(all, read(t, rand.New(rand.NewPCG(uint64(i), 1)), baseSpec))
	}

	var missing []string

	for _, path := range fieldsOf(reflect.TypeFor[v1alpha1.ProviderSpec]()) {
		if !has(map[string]any(all), strings.Split(path, ".")) {
			missing = append(missing, path)
		}
	}

	require.ElementsMatch(t, []string{
		// The driver refuses these.
		"virtualMachineTemplate.spec.running", "virtualMachineTemplate.spec.dataVolumeTemplates",
		"rootVolume.checkpoints", "rootVolume.finalCheckpoint", "additionalVolumes.dataVolume.checkpoints", "additionalVolumes.dataVolume.finalCheckpoint",
		"additionalVolumes.dataVolume.serviceAccountName",
		// It needs a plugin registered with KubeVirt.
		"networks.binding",
	}, missing)
}

// fieldsOf returns the paths of a type's fields, including those of types of its own
// package and of embedded types.
func fieldsOf(t reflect.Type) []string {
	var paths []string

	for i := range t.NumField() {
		f := t.Field(i)
		if !f.IsExported() {
			continue
		}

		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")

		inner := f.Type
		for inner.Kind() == reflect.Pointer || inner.Kind() == reflect.Slice {
			inner = inner.Elem()
		}

		if name == "" {
			paths = append(paths, fieldsOf(inner)...)

			continue
		}

		paths = append(paths, name)

		if inner.Kind() == reflect.Struct && inner.PkgPath() == reflect.TypeFor[v1alpha1.ProviderSpec]().PkgPath() {
			for _, path := range fieldsOf(inner) {
				paths = append(paths, name+"."+path)
			}
		}
	}

	return paths
}

// has reports whether a path exists, in any entry of the lists on the way.
func has(value any, path []string) bool {
	if len(path) == 0 {
		return true
	}

	switch value := value.(type) {
	case map[string]any:
		next, found := value[path[0]]

		return found && has(next, path[1:])
	case []any:
		return slices.ContainsFunc(value, func(entry any) bool { return has(entry, path) })
	}

	return false
}

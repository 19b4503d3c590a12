// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package validation_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1/validation"
)

// withRoot returns a spec with this root volume, as JSON.
func withRoot(t *testing.T, root string) []byte {
	t.Helper()

	return asJSON(t, "rootVolume: "+root)
}

// withVolume returns a spec with this additional DataVolume, as JSON.
func withVolume(t *testing.T, volume string) []byte {
	t.Helper()

	return asJSON(t, `rootVolume: {source: {pvc: {name: image}}, storage: {}}
additionalVolumes: [{name: data, dataVolume: `+volume+`}]`)
}

func asJSON(t *testing.T, more string) []byte {
	t.Helper()

	raw, err := yaml.YAMLToJSONStrict([]byte(`region: eu
zone: eu-1
tags: {mcm.gardener.cloud/cluster: shoot--p--s, mcm.gardener.cloud/role: node}
memory: {guest: 1Gi}
` + more))
	require.NoError(t, err, more)

	return raw
}

func requireFaults(t *testing.T, raw []byte, want []string, reason string) {
	t.Helper()

	_, errs := validation.Decode(raw, validation.Options{Template: validation.TemplateSafe})

	var got []string
	for _, err := range errs {
		got = append(got, strings.TrimPrefix(err.Field, "providerSpec."))
		require.NotEmpty(t, err.Detail, "every error has a remedy")
		require.NotContains(t, err.Error(), "password", "a URL's password is not quoted")
	}

	require.ElementsMatch(t, want, got, "%s: %s: %v", reason, raw, errs)
}

func TestValidateRootVolume(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		reason string
		root   string
		want   []string
	}{
		"Predecessor": {
			reason: "the predecessor's machines stay valid",
			root: `{pvc: {storageClassName: fast, accessModes: [ReadWriteOnce], resources: {requests: {storage: 10Gi}}},
				source: {http: {url: "https://images.example.com/worker.qcow2"}}}`,
		},
		"PredecessorClone": {
			reason: "the predecessor's machines stay valid",
			root: `{pvc: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 10Gi}}},
				source: {pvc: {namespace: images, name: worker}}}`,
		},
		"OwnNamespace": {reason: "KubeVirt fills in the machine's namespace", root: `{source: {snapshot: {name: image}}, storage: {}}`},
		"DataSource":   {reason: "a clone is as large as its source", root: `{sourceRef: {kind: DataSource, name: image}, storage: {}}`},
		"Blank": {
			reason: "an empty disk never boots",
			root:   `{source: {blank: {}}, storage: {resources: {requests: {storage: 1Gi}}}}`,
			want:   []string{"rootVolume.source.blank"},
		},
		"Upload": {
			reason: "the machine would wait forever for the upload",
			root:   `{source: {upload: {}}, storage: {resources: {requests: {storage: 1Gi}}}}`,
			want:   []string{"rootVolume.source.upload"},
		},
		"Checksum": {
			reason: "CDI verifies the golden image with it",
			root:   `{source: {http: {url: "https://h/i", checksum: "sha256:12"}}, storage: {resources: {requests: {storage: 1Gi}}}}`,
			want:   []string{"rootVolume.source.http.checksum"},
		},
		"ValidChecksum": {
			reason: "CDI verifies the golden image with it",
			root:   `{source: {http: {url: "https://h/i", checksum: "md5:0123456789abcdef0123456789abcdef"}}, storage: {resources: {requests: {storage: 1Gi}}}}`,
		},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			requireFaults(t, withRoot(t, tc.root), tc.want, tc.reason)
		})
	}
}

func TestValidateSourceURL_TwoSchemes(t *testing.T) {
	t.Parallel()

	for root, want := range map[string]string{
		`{source: {registry: {url: "docker://https://h/i:1"}}, storage: {resources: {requests: {storage: 20Gi}}}}`: "rootVolume.source.registry.url: " +
			"Invalid value: must have one scheme; remove the second, so that the host follows docker://",
		`{containerDisk: {image: "docker://h/i:1"}}`: `rootVolume.containerDisk.image: Invalid value: "docker://h/i:1": ` +
			"must not have a scheme; remove docker://",
	} {
		_, errs := validation.Decode(withRoot(t, root), validation.Options{})
		require.Len(t, errs, 1, root)
		require.Equal(t, "providerSpec."+want, errs[0].Error())
	}
}

func TestValidateSource(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		source string
		// want are the invalid fields, below source.
		want []string
	}{
		"None":                {`{}`, []string{""}},
		"Two":                 {`{http: {url: "https://h/i"}, blank: {}}`, []string{".blank"}},
		"Blank":               {`{blank: {}}`, nil},
		"Clone":               {`{pvc: {name: image}}`, nil},
		"CloneOfNothing":      {`{pvc: {namespace: images}}`, []string{".pvc.name"}},
		"CloneNoName":         {`{snapshot: {namespace: A.b, name: a_b}}`, []string{".snapshot.name", ".snapshot.namespace"}},
		"HTTP":                {`{http: {url: "http://user:password@h:8080/i?a=b", secretRef: s, certConfigMap: c, secretExtraHeaders: [h], extraHeaders: ["A: b"]}}`, nil},
		"HTTPEmpty":           {`{http: {}}`, []string{".http.url"}},
		"HTTPRelative":        {`{http: {url: images/worker}}`, []string{".http.url"}},
		"HTTPOtherScheme":     {`{http: {url: "ftp://user:password@h/i"}}`, []string{".http.url"}},
		"HTTPNoHost":          {`{http: {url: "https:///password"}}`, []string{".http.url"}},
		"HTTPNames":           {`{http: {url: "https://h/i", secretRef: A, certConfigMap: B, secretExtraHeaders: [""]}}`, []string{".http.secretRef", ".http.certConfigMap", ".http.secretExtraHeaders[0]"}},
		"Registry":            {`{registry: {url: "docker://h/i:1", pullMethod: node, secretRef: s, certConfigMap: c, platform: {architecture: arm64}}}`, nil},
		"RegistryFile":        {`{registry: {url: "oci-archive:///i.tar"}}`, nil},
		"RegistryStream":      {`{registry: {imageStream: i, pullMethod: node}}`, nil},
		"RegistryEmpty":       {`{registry: {}}`, []string{".registry.url"}},
		"RegistryBoth":        {`{registry: {url: "docker://h/i", imageStream: i, pullMethod: node}}`, []string{".registry.imageStream"}},
		"RegistryScheme":      {`{registry: {url: "https://h/i"}}`, []string{".registry.url"}},
		"RegistryNoScheme":    {`{registry: {url: "h/i:1"}}`, []string{".registry.url"}},
		"RegistryTwoSchemes":  {`{registry: {url: "docker://https://user:password@h/i:1"}}`, []string{".registry.url"}},
		"RegistrySameTwice":   {`{registry: {url: "docker://docker://h/i:1"}}`, []string{".registry.url"}},
		"HTTPTwoSchemes":      {`{http: {url: "https://http://h/i"}}`, []string{".http.url"}},
		"HTTPOtherURLInPath":  {`{http: {url: "https://mirror/https://h//i"}}`, nil},
		"S3TwoSchemes":        {`{s3: {url: "https://s3://h/b/i"}}`, []string{".s3.url"}},
		"RegistryMethod":      {`{registry: {url: "docker://h/i", pullMethod: host}}`, []string{".registry.pullMethod"}},
		"RegistryEmptyStream": {`{registry: {imageStream: "", pullMethod: node}}`, []string{".registry.imageStream"}},
		"RegistryStreamByPod": {`{registry: {imageStream: i}}`, []string{".registry.pullMethod"}},
		"RegistryNames":       {`{registry: {url: "docker://h/i", secretRef: A, certConfigMap: B}}`, []string{".registry.secretRef", ".registry.certConfigMap"}},
		"S3":                  {`{s3: {url: "https://h/b/i", secretRef: s}}`, nil},
		"S3Scheme":            {`{s3: {url: "s3://b/i"}}`, []string{".s3.url"}},
		"GCS":                 {`{gcs: {url: "gs://b/i"}}`, nil},
		"GCSScheme":           {`{gcs: {url: "ftp://b/i"}}`, []string{".gcs.url"}},
		"ImageIO":             {`{imageio: {url: "https://h/api", diskId: d, secretRef: s, certConfigMap: c}}`, nil},
		"ImageIOEmpty":        {`{imageio: {}}`, []string{".imageio.url", ".imageio.diskId", ".imageio.secretRef", ".imageio.certConfigMap"}},
		"ImageIOInsecure":     {`{imageio: {url: "https://h/api", diskId: d, secretRef: s, insecureSkipVerify: true}}`, nil},
		"VDDK":                {`{vddk: {url: "https://h", uuid: u, backingFile: f, thumbprint: t, secretRef: s}}`, nil},
		"VDDKEmpty":           {`{vddk: {}}`, []string{".vddk.url", ".vddk.uuid", ".vddk.backingFile", ".vddk.thumbprint", ".vddk.secretRef"}},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			want := []string(nil)
			for _, field := range tc.want {
				want = append(want, "additionalVolumes[0].dataVolume.source"+field)
			}

			raw := withVolume(t, fmt.Sprintf(`{source: %s, storage: {resources: {requests: {storage: 1Gi}}}}`, tc.source))
			requireFaults(t, raw, want, "CDI refuses it, or never completes, after KubeVirt has accepted the machine")
		})
	}
}

func TestValidateDataVolume(t *testing.T) {
	t.Parallel()

	const (
		blank = `source: {blank: {}}, `
		sized = `storage: {resources: {requests: {storage: 1Gi}}}`
	)

	tests := map[string]struct {
		reason string
		volume string
		// want are the invalid fields, below the DataVolume.
		want []string
	}{
		"SourceRefKind":  {"CDI supports one kind", `{sourceRef: {kind: VolumeSnapshot, name: a}, storage: {}}`, []string{"sourceRef.kind"}},
		"SourceRefEmpty": {"both fields are required", `{sourceRef: {}, storage: {}}`, []string{"sourceRef.kind", "sourceRef.name"}},
		"NoSize":         {"only a clone may take its size from the source", `{` + blank + `storage: {}}`, []string{"storage.resources.requests[storage]"}},
		"Tiny":           {"it is below CDI's minimum", `{` + blank + `storage: {resources: {requests: {storage: 1000Ki}}}}`, []string{"storage.resources.requests[storage]"}},
		"Zero":           {"a disk has a size", `{source: {pvc: {name: a}}, storage: {resources: {requests: {storage: "0"}}}}`, []string{"storage.resources.requests[storage]"}},
		"LiteralClaim": {
			"a pvc has no defaults, even for a clone", `{source: {pvc: {name: a}}, pvc: {}}`,
			[]string{"pvc.accessModes", "pvc.resources.requests[storage]"},
		},
		"TwoModes": {
			"CDI requires exactly one in a pvc", `{` + blank + `pvc: {accessModes: [ReadWriteOnce, ReadWriteMany], resources: {requests: {storage: 1Gi}}}}`,
			[]string{"pvc.accessModes"},
		},
		"StorageModes": {"storage may have several", `{` + blank + `storage: {accessModes: [ReadWriteOnce, ReadWriteMany], volumeMode: Block, resources: {requests: {storage: 1Gi}}}}`, nil},
		"WrongModes": {
			"there are four access modes and two volume modes", `{` + blank + `storage: {accessModes: [ReadWrite], volumeMode: block, resources: {requests: {storage: 1Gi}}}}`,
			[]string{"storage.accessModes[0]", "storage.volumeMode"},
		},
		"OncePod": {
			"Kubernetes refuses the claim", `{` + blank + `storage: {accessModes: [ReadWriteOncePod, ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}`,
			[]string{"storage.accessModes"},
		},
		"ClassName": {
			"Kubernetes refuses the claim", `{` + blank + `storage: {storageClassName: Fast, selector: {matchLabels: {a: "b,"}}, resources: {requests: {storage: 1Gi}}}}`,
			[]string{"storage.storageClassName", "storage.selector.matchLabels"},
		},
		"OneVolumeForAll": {
			"a PersistentVolume can have one claim", `{` + blank + `storage: {volumeName: pv, resources: {requests: {storage: 1Gi}}}}`,
			[]string{"storage.volumeName"},
		},
		"Populators": {
			"they are additional sources", `{` + blank + `pvc: {accessModes: [ReadWriteOnce], dataSource: {kind: PersistentVolumeClaim, name: a}, dataSourceRef: {kind: PersistentVolumeClaim, name: a}, resources: {requests: {storage: 1Gi}}}}`,
			[]string{"pvc.dataSource", "pvc.dataSourceRef"},
		},
		"Archive":     {"an archive cannot be used as a disk", `{source: {http: {url: "https://h/a.tar"}}, contentType: archive, ` + sized + `}`, []string{"contentType"}},
		"KubeVirt":    {"the default may be set", `{` + blank + `contentType: kubevirt, preallocation: true, priorityClassName: high, ` + sized + `}`, nil},
		"PodSettings": {"Kubernetes refuses CDI's pods", `{` + blank + `priorityClassName: A, serviceAccountName: B, ` + sized + `}`, []string{"priorityClassName", "serviceAccountName", "serviceAccountName"}},
		"ServiceAccount": {
			"KubeVirt does not know it", `{` + blank + `serviceAccountName: importer, ` + sized + `}`, []string{"serviceAccountName"},
		},
		"VDDKCertificates": {
			"KubeVirt does not know them", `{source: {vddk: {url: "https://h", uuid: u, backingFile: f, thumbprint: t, secretRef: s, certConfigMap: ca}}, ` + sized + `}`,
			[]string{"source.vddk.certConfigMap"},
		},
		"Checkpoints": {"the next checkpoint would never arrive", `{` + blank + `checkpoints: [{previous: a, current: b}], ` + sized + `}`, []string{"checkpoints"}},
		"Annotations": {
			"CDI would mistake them for its own", `{` + blank + sized + `, annotations: {cdi.kubevirt.io/storage.bind.immediate.requested: "",
				cdi.kubevirt.io/storage.prePopulated: a, cdi.kubevirt.io/storage.usePopulator: "false", example.com/owner: me}}`,
			[]string{
				"annotations[cdi.kubevirt.io/storage.bind.immediate.requested]", "annotations[cdi.kubevirt.io/storage.prePopulated]",
			},
		},
		"AnnotationKey": {"the key is invalid", `{` + blank + sized + `, annotations: {"a b": c}}`, []string{"annotations"}},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			want := []string(nil)
			for _, field := range tc.want {
				want = append(want, "additionalVolumes[0].dataVolume."+field)
			}

			requireFaults(t, withVolume(t, tc.volume), want, tc.reason)
		})
	}
}

func TestValidateVolumeSource(t *testing.T) {
	t.Parallel()

	raw := asJSON(t, `rootVolume: {source: {pvc: {name: image}}, storage: {}}
additionalVolumes:
  - {name: a, volumeSource: {persistentVolumeClaim: {}}}
  - {name: b, volumeSource: {configMap: {name: B}}}
  - {name: c, volumeSource: {secret: {secretName: c/c}}}`)
	requireFaults(t, raw, []string{
		"additionalVolumes[0].volumeSource.persistentVolumeClaim.claimName",
		"additionalVolumes[1].volumeSource.configMap.name", "additionalVolumes[2].volumeSource.secret.secretName",
	}, "KubeVirt would wait for objects that cannot exist")
}

// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package validation_test

import (
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/yaml"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1/validation"
)

// migratableSpec returns a valid spec without warnings.
func migratableSpec() *v1alpha1.ProviderSpec {
	spec := validSpec()
	spec.Networks = []v1alpha1.Network{{Pod: &v1alpha1.PodNetwork{}, Masquerade: &kubevirtv1.InterfaceMasquerade{}}}

	return spec
}

func instanceOf(spec *v1alpha1.ProviderSpec) *kubevirtv1.VirtualMachineInstanceSpec {
	spec.VirtualMachineTemplate = &v1alpha1.VirtualMachineTemplate{}
	spec.VirtualMachineTemplate.Spec.Template = &v1alpha1.VirtualMachineInstanceTemplate{}

	return &spec.VirtualMachineTemplate.Spec.Template.Spec
}

func dataDisk(volume cdiv1beta1.DataVolumeSpec) []v1alpha1.AdditionalVolume {
	return []v1alpha1.AdditionalVolume{{Name: "data", DataVolume: &v1alpha1.DataVolume{DataVolumeSpec: volume}}}
}

func fieldsOf(warnings []validation.Warning) []string {
	var fields []string
	for _, w := range warnings {
		fields = append(fields, w.Field)
	}

	return fields
}

func TestWarnings(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		reason string
		change func(*v1alpha1.ProviderSpec)
		want   []string
	}{
		"None": {reason: "the base of all cases needs no warning", change: func(*v1alpha1.ProviderSpec) {}},
		"Empty": {
			reason: "an invalid spec has warnings, too, and the pod network is bridged by default",
			change: func(s *v1alpha1.ProviderSpec) { *s = v1alpha1.ProviderSpec{} },
			want:   []string{"providerSpec.networks"},
		},
		"ReadWriteOnce": {reason: "a disk of one host prevents migration", change: func(s *v1alpha1.ProviderSpec) {
			s.RootVolume.Storage.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
		}, want: []string{"providerSpec.rootVolume.storage.accessModes"}},
		"NotToBeMigrated": {reason: "a machine that is not migrated needs no warning", change: func(s *v1alpha1.ProviderSpec) {
			s.Networks = nil
			instanceOf(s).EvictionStrategy = ptr.To(kubevirtv1.EvictionStrategyNone)
		}},
		"GPU": {reason: "devices of the host prevent migration", change: func(s *v1alpha1.ProviderSpec) {
			instanceOf(s).Domain.Devices.GPUs = []kubevirtv1.GPU{{Name: "gpu"}}
		}, want: []string{"providerSpec.virtualMachineTemplate.spec.template.spec.domain.devices.gpus"}},
		"PVC": {reason: "a claim without a mode has a file system", change: func(s *v1alpha1.ProviderSpec) {
			s.AdditionalVolumes = dataDisk(cdiv1beta1.DataVolumeSpec{PVC: &corev1.PersistentVolumeClaimSpec{}})
		}, want: []string{"providerSpec.additionalVolumes[0].dataVolume.pvc.volumeMode"}},
		"StorageProfile": {reason: "without a mode, the provider chooses", change: func(s *v1alpha1.ProviderSpec) {
			s.AdditionalVolumes = dataDisk(cdiv1beta1.DataVolumeSpec{Storage: &cdiv1beta1.StorageSpec{}})
		}, want: []string{"providerSpec.additionalVolumes[0].dataVolume.storage.volumeMode"}},
		"Filesystem": {reason: "the disk would be smaller than requested", change: func(s *v1alpha1.ProviderSpec) {
			s.AdditionalVolumes = dataDisk(cdiv1beta1.DataVolumeSpec{Storage: &cdiv1beta1.StorageSpec{VolumeMode: ptr.To(corev1.PersistentVolumeFilesystem)}})
		}, want: []string{"providerSpec.additionalVolumes[0].dataVolume.storage.volumeMode"}},
		"Block": {reason: "block volumes are recommended", change: func(s *v1alpha1.ProviderSpec) {
			s.AdditionalVolumes = append(
				dataDisk(cdiv1beta1.DataVolumeSpec{Storage: &cdiv1beta1.StorageSpec{VolumeMode: ptr.To(corev1.PersistentVolumeBlock)}}),
				dataDisk(cdiv1beta1.DataVolumeSpec{PVC: &corev1.PersistentVolumeClaimSpec{VolumeMode: ptr.To(corev1.PersistentVolumeBlock)}})...)
		}},
		"VolumeSource": {reason: "the driver does not create it", change: func(s *v1alpha1.ProviderSpec) {
			s.AdditionalVolumes = []v1alpha1.AdditionalVolume{{Name: "data", VolumeSource: &v1alpha1.VolumeSource{}}}
		}},
		"ConfigDriveNetworks": {reason: "the driver generates none for a config drive", change: func(s *v1alpha1.ProviderSpec) {
			s.CloudInit = &v1alpha1.CloudInit{Type: v1alpha1.CloudInitConfigDrive}
			s.Networks = append(s.Networks, v1alpha1.Network{Name: "storage"})
		}, want: []string{"providerSpec.cloudInit.networkData"}},
		"ConfigDriveOneNetwork": {reason: "the guest configures its first interface by itself", change: func(s *v1alpha1.ProviderSpec) {
			s.CloudInit = &v1alpha1.CloudInit{Type: v1alpha1.CloudInitConfigDrive}
		}},
		"ConfigDriveNetworkData": {reason: "the user has configured them", change: func(s *v1alpha1.ProviderSpec) {
			s.CloudInit = &v1alpha1.CloudInit{Type: v1alpha1.CloudInitConfigDrive, NetworkData: `{"links":[],"networks":[]}`}
			s.Networks = append(s.Networks, v1alpha1.Network{Name: "storage"})
		}},
		"Multiqueue": {reason: "the predecessor's spelling is deprecated", change: func(s *v1alpha1.ProviderSpec) {
			s.Devices = &v1alpha1.Devices{NetworkInterfaceMultiqueue: true}
		}, want: []string{"providerSpec.devices.networkInterfaceMultiqueue"}},
		"NetworkSHA": {reason: "the predecessor's extension wrote it, and it has no effect", change: func(s *v1alpha1.ProviderSpec) {
			s.Networks[0].SHA = "b5bb9d80"
		}, want: []string{"providerSpec.networks[0].sha"}},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			spec := migratableSpec()
			tc.change(spec)
			require.Equal(t, tc.want, fieldsOf(validation.Warnings(spec)), tc.reason)
		})
	}
}

// TestSizeWarnings uses sizes that KubeVirt accepts, but that are probably typing errors.
func TestSizeWarnings(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		reason string
		more   string
		want   []string
		says   string
	}{
		"LeastMemory": {reason: "a small node is plausible", more: "memory: {guest: 512Mi}"},
		"MostMemory":  {reason: "a large node is plausible", more: "memory: {guest: 2Ti}"},
		"TinyMemory": {
			reason: "Mi instead of Gi", more: "memory: {guest: 4Mi}",
			want: []string{"providerSpec.memory.guest"}, says: "is 4Mi, which is less than 512Mi",
		},
		"HugeMemory": {
			reason: "Ti instead of Gi", more: "memory: {guest: 4Ti}",
			want: []string{"providerSpec.memory.guest"}, says: "is 4Ti, which is more than 2Ti",
		},
		"MemoryByRequest": {
			reason: "the guest gets the requested memory", more: "resources: {requests: {memory: 100M}}\nmemory: {}",
			want: []string{"providerSpec.resources.requests[memory]"}, says: "is 100M, which is less than 512Mi",
		},
		"MemoryInTemplate": {
			reason: "the template takes precedence", more: "virtualMachineTemplate: {spec: {template: {spec: {domain: {memory: {guest: 16Ti}}}}}}",
			want: []string{"providerSpec.virtualMachineTemplate.spec.template.spec.domain.memory.guest"}, says: "is 16Ti",
		},
		"MostCPUs": {reason: "a large node is plausible", more: "cpu: {sockets: 2, cores: 64, threads: 2}"},
		"ManyCPUs": {
			reason: "sockets, cores and threads are multiplied", more: "cpu: {sockets: 4, cores: 64, threads: 2}",
			want: []string{"providerSpec.cpu"}, says: "is 512 virtual CPUs, which is more than 256",
		},
		"OverflowingCPUs": {
			reason: "the product overflows", more: "cpu: {sockets: 4294967295, cores: 4294967295, threads: 4294967295}",
			want: []string{"providerSpec.cpu"}, says: "which is more than 256",
		},
		"CPUsInTemplate": {
			reason: "the template takes precedence", more: "cpu: {cores: 4}\nvirtualMachineTemplate: {spec: {template: {spec: {domain: {cpu: {cores: 400}}}}}}",
			want: []string{"providerSpec.virtualMachineTemplate.spec.template.spec.domain.cpu"}, says: "is 400 virtual CPUs",
		},
		"CPUsByRequest": {
			reason: "KubeVirt uses the request", more: "resources: {requests: {cpu: 4k}}",
			want: []string{"providerSpec.resources.requests[cpu]"}, says: "is 4000 virtual CPUs",
		},
		"CPULimit": {
			reason: "m instead of no unit", more: "resources: {limits: {cpu: 4m}}",
			want: []string{"providerSpec.resources.limits[cpu]"}, says: "is 4m, which is less than 100m",
		},
		"LeastRootDisk": {reason: "images of this size exist", more: "rootVolume: {source: {pvc: {name: i}}, storage: {resources: {requests: {storage: 1Gi}}}}"},
		"TinyRootDisk": {
			reason: "Mi instead of Gi", more: "rootVolume: {source: {pvc: {name: i}}, storage: {resources: {requests: {storage: 20Mi}}}}",
			want: []string{"providerSpec.rootVolume.storage.resources.requests[storage]"}, says: "is 20Mi, which is less than 1Gi",
		},
		"TinyRootClaim": {
			reason: "M instead of Gi", more: "rootVolume: {source: {pvc: {name: i}}, pvc: {accessModes: [ReadWriteMany], resources: {requests: {storage: 20M}}}}",
			want: []string{"providerSpec.rootVolume.pvc.resources.requests[storage]"}, says: "is 20M, which is less than 1Gi",
		},
		"HugeRootDisk": {
			reason: "Ti instead of Gi", more: "rootVolume: {source: {pvc: {name: i}}, storage: {resources: {requests: {storage: 20Ti}}}}",
			want: []string{"providerSpec.rootVolume.storage.resources.requests[storage]"}, says: "is 20Ti, which is more than 8Ti",
		},
		"TinyGoldenImage": {
			reason: "the image is imported into it", more: "goldenImage: {size: 20Mi}\nrootVolume: {source: {http: {url: 'https://h/i-1'}}, storage: {resources: {requests: {storage: 20Gi}}}}",
			want: []string{"providerSpec.goldenImage.size"}, says: "is 20Mi, which is less than 1Gi",
		},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			more := "networks: [{pod: {}, masquerade: {}}]\n" + tc.more
			if !strings.Contains(more, "rootVolume:") {
				more += "\nrootVolume: {source: {pvc: {name: i}}, storage: {}}"
			}

			var raw map[string]any

			require.NoError(t, yaml.Unmarshal([]byte(more), &raw))

			if raw["memory"] == nil {
				more += "\nmemory: {guest: 1Gi}"
			}

			spec := &v1alpha1.ProviderSpec{}
			require.NoError(t, yaml.UnmarshalStrict([]byte(more), spec))

			warnings := validation.Warnings(spec)
			require.Equal(t, tc.want, fieldsOf(warnings), tc.reason)

			if tc.says != "" {
				require.Contains(t, warnings[0].Detail, tc.says, tc.reason)
			}
		})
	}
}

// TestWarnings_SharedQuantities requires that no variable of the package is a Quantity, which two calls would
// share: a Quantity stores its text when it is formatted for the first time.
func TestWarnings_SharedQuantities(t *testing.T) {
	t.Parallel()

	files, err := filepath.Glob("*.go")
	require.NoError(t, err)

	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		require.NoError(t, err)

		for _, declaration := range file.Decls {
			variables, ok := declaration.(*ast.GenDecl)
			if !ok || variables.Tok != token.VAR {
				continue
			}

			ast.Inspect(variables, func(n ast.Node) bool {
				selector, ok := n.(*ast.SelectorExpr)
				if !ok {
					return true
				}

				of, ok := selector.X.(*ast.Ident)
				require.False(t, ok && of.Name == "resource", "%s: a variable of the package uses resource.%s", name, selector.Sel)

				return true
			})
		}
	}
}

func TestUserDataWarnings(t *testing.T) {
	t.Parallel()

	const (
		ignition    = `{"ignition":{"version":"3.4.0"},"token":"%3C%3CBOOTSTRAP_TOKEN%3E%3E"}`
		cloudConfig = "#cloud-config\nruncmd: [[join, <<BOOTSTRAP_TOKEN>>]]\n"
	)

	configDrive := func(s *v1alpha1.ProviderSpec) {
		s.CloudInit = &v1alpha1.CloudInit{Type: v1alpha1.CloudInitConfigDrive}
	}
	tests := map[string]struct {
		reason   string
		userData string
		// architecture is amd64 by default.
		architecture string
		change       func(*v1alpha1.ProviderSpec)
		want         []string
	}{
		"None": {reason: "its Secret is not known", change: configDrive},
		"CloudConfig": {reason: "cloud-init reads everything", userData: cloudConfig, change: func(s *v1alpha1.ProviderSpec) {
			s.SSHKeys = []string{"ssh-ed25519 AAAA"}
		}},
		"NoToken":   {reason: "kubelet may not join", userData: "#cloud-config\n", want: []string{"userData"}},
		"Gzip":      {reason: "no placeholder is replaced", userData: "\x1f\x8b\x08", want: []string{"userData"}},
		"NoFormat":  {reason: "the guest ignores it", userData: "join <<BOOTSTRAP_TOKEN>>", want: []string{"userData"}},
		"OtherJSON": {reason: "not every JSON object is an Ignition config", userData: `{"ignition":[]}`, want: []string{"userData"}},
		"NoCloud": {
			reason: "few images read Ignition from there", userData: ignition, want: []string{"providerSpec.cloudInit.type"},
		},
		"ConfigDrive": {reason: "Ignition reads this", userData: ignition, change: configDrive},
		"SSHKeys": {reason: "Ignition reads the user data only", userData: ignition, change: func(s *v1alpha1.ProviderSpec) {
			configDrive(s)
			s.SSHKeys = []string{"ssh-ed25519 AAAA"}
		}, want: []string{"providerSpec.sshKeys"}},
		"Restart": {reason: "the image may bind its network to the first MAC address", userData: cloudConfig, change: func(s *v1alpha1.ProviderSpec) {
			configDrive(s)
			s.Networks = nil
		}, want: []string{"providerSpec.cloudInit.networkData"}},
		"RestartNetworkData": {reason: "the author has named the interface", userData: cloudConfig, change: func(s *v1alpha1.ProviderSpec) {
			s.CloudInit = &v1alpha1.CloudInit{Type: v1alpha1.CloudInitConfigDrive, NetworkData: "{}"}
			s.Networks = nil
		}},
		"RestartSRIOV": {reason: "the driver cannot predict the name of the interface", userData: cloudConfig, change: func(s *v1alpha1.ProviderSpec) {
			s.Networks = []v1alpha1.Network{{Name: "fast", Default: true, SRIOV: &kubevirtv1.InterfaceSRIOV{}}}
		}, want: []string{"providerSpec.cloudInit.networkData"}},
		"RestartModel": {reason: "the driver cannot predict the name of the interface", userData: cloudConfig, change: func(s *v1alpha1.ProviderSpec) {
			s.Networks = []v1alpha1.Network{{Pod: &v1alpha1.PodNetwork{}, Model: "e1000"}}
		}, want: []string{"providerSpec.cloudInit.networkData"}},
		"RestartS390X": {reason: "the driver cannot predict the name of the interface", userData: cloudConfig, architecture: "s390x", change: func(s *v1alpha1.ProviderSpec) {
			s.Networks = nil
		}, want: []string{"providerSpec.cloudInit.networkData"}},
		"RestartIgnition": {reason: "it reads no network data", userData: ignition, architecture: "s390x", change: func(s *v1alpha1.ProviderSpec) {
			s.Networks = nil
		}, want: []string{"providerSpec.cloudInit.type"}},
		"Mailbox":           {reason: "cloud-init finds MIME-Version", userData: "From me\nMIME-Version: 1.0\n\n<<BOOTSTRAP_TOKEN>>"},
		"RestartNoCloud":    {reason: "the driver generates network data", userData: cloudConfig, change: func(s *v1alpha1.ProviderSpec) { s.Networks = nil }},
		"RestartMasquerade": {reason: "the driver sets the MAC address", userData: cloudConfig, change: configDrive},
		"RestartOnce": {reason: "it is replaced instead", userData: cloudConfig, change: func(s *v1alpha1.ProviderSpec) {
			configDrive(s)
			s.Networks, s.RootVolume = nil, v1alpha1.RootVolume{ContainerDisk: &kubevirtv1.ContainerDiskSource{}}
		}},
	}

	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			spec := migratableSpec()
			if tc.change != nil {
				tc.change(spec)
			}

			require.Equal(t, tc.want, fieldsOf(validation.UserDataWarnings(spec, cmp.Or(tc.architecture, "amd64"), []byte(tc.userData))), tc.reason)
		})
	}
}

// TestWarnings_IgnoredByNode has provider nodes pull images, whose credentials CDI does not use then.
func TestWarnings_IgnoredByNode(t *testing.T) {
	t.Parallel()

	volume := func(method cdiv1beta1.RegistryPullMethod) cdiv1beta1.DataVolumeSpec {
		return cdiv1beta1.DataVolumeSpec{Source: &cdiv1beta1.DataVolumeSource{Registry: &cdiv1beta1.DataVolumeSourceRegistry{
			URL: ptr.To("docker://h/worker:1"), PullMethod: &method, SecretRef: ptr.To("s"), CertConfigMap: ptr.To("c"),
		}}}
	}

	for method, want := range map[cdiv1beta1.RegistryPullMethod][]string{
		cdiv1beta1.RegistryPullPod: nil,
		cdiv1beta1.RegistryPullNode: {
			"providerSpec.rootVolume.source.registry.secretRef", "providerSpec.rootVolume.source.registry.certConfigMap",
			"providerSpec.additionalVolumes[0].dataVolume.source.registry.secretRef",
			"providerSpec.additionalVolumes[0].dataVolume.source.registry.certConfigMap",
		},
	} {
		spec := migratableSpec()
		spec.RootVolume.DataVolumeSpec, spec.AdditionalVolumes = volume(method), dataDisk(volume(method))
		require.Equal(t, want, fieldsOf(validation.Warnings(spec)), method)
	}
}

func TestWarnings_MutableImages(t *testing.T) {
	t.Parallel()

	registry := func(url string) *cdiv1beta1.DataVolumeSource {
		return &cdiv1beta1.DataVolumeSource{Registry: &cdiv1beta1.DataVolumeSourceRegistry{URL: &url}}
	}
	server := func(url, checksum string) *cdiv1beta1.DataVolumeSource {
		return &cdiv1beta1.DataVolumeSource{HTTP: &cdiv1beta1.DataVolumeSourceHTTP{URL: url, Checksum: checksum}}
	}

	for reason, tc := range map[string]struct {
		source *cdiv1beta1.DataVolumeSource
		want   string
	}{
		"a version":                            {registry("docker://h:5000/worker:1.0"), ""},
		"a digest":                             {registry("docker://h/worker@sha256:00"), ""},
		"no tag, but a port":                   {registry("docker://h:5000/worker"), "providerSpec.rootVolume.source.registry.url"},
		"latest":                               {registry("docker://h/worker:latest"), "providerSpec.rootVolume.source.registry.url"},
		"a channel":                            {registry("docker://h/worker:stable"), "providerSpec.rootVolume.source.registry.url"},
		"a file":                               {server("https://h/worker-1.0.qcow2", ""), ""},
		"the newest of a release":              {server("https://h/noble/current/noble.img", ""), "providerSpec.rootVolume.source.http.url"},
		"the newest file":                      {server("https://h/worker-latest.qcow2", ""), "providerSpec.rootVolume.source.http.url"},
		"a checksum: another image would fail": {server("https://h/noble/current/noble.img", "md5:0"), ""},
	} {
		spec := migratableSpec()
		spec.RootVolume.Source, spec.RootVolume.SourceRef = tc.source, nil

		got := fieldsOf(validation.Warnings(spec))
		if tc.want == "" {
			require.Empty(t, got, reason)
		} else {
			require.Equal(t, []string{tc.want}, got, reason)
		}

		spec.DisablePreAllocatedDataVolumes = true
		require.Empty(t, validation.Warnings(spec), "each machine imports the image itself")
	}
}

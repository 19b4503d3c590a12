package render

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// cloudInitVolume returns the volume that cloud-init or Ignition reads. It refers to the machine's
// Secret: KubeVirt allows 2048 bytes inline.
func cloudInitVolume(in *spi.CreateMachineInput) kubevirtv1.Volume {
	userData := &corev1.LocalObjectReference{Name: SecretName(in.Name)}

	var network *corev1.LocalObjectReference
	if networkData(in) != "" {
		network = userData.DeepCopy()
	}

	volume := kubevirtv1.Volume{Name: v1alpha1.CloudInitVolume}
	if isConfigDrive(in.Spec) {
		volume.CloudInitConfigDrive = &kubevirtv1.CloudInitConfigDriveSource{UserDataSecretRef: userData, NetworkDataSecretRef: network}
	} else {
		volume.CloudInitNoCloud = &kubevirtv1.CloudInitNoCloudSource{UserDataSecretRef: userData, NetworkDataSecretRef: network}
	}

	return volume
}

func isConfigDrive(spec *v1alpha1.ProviderSpec) bool {
	return cloudInit(spec).Type == v1alpha1.CloudInitConfigDrive
}

func cloudInit(spec *v1alpha1.ProviderSpec) v1alpha1.CloudInit {
	return ptr.Deref(spec.CloudInit, v1alpha1.CloudInit{})
}

// accessCredentials makes KubeVirt put the SSH keys into the metadata next to the user data, whose
// format then does not matter.
func accessCredentials(in *spi.CreateMachineInput) []kubevirtv1.AccessCredential {
	if len(in.Spec.SSHKeys) == 0 {
		return nil
	}

	var method kubevirtv1.SSHPublicKeyAccessCredentialPropagationMethod
	if isConfigDrive(in.Spec) {
		method.ConfigDrive = &kubevirtv1.ConfigDriveSSHPublicKeyAccessCredentialPropagation{}
	} else {
		method.NoCloud = &kubevirtv1.NoCloudSSHPublicKeyAccessCredentialPropagation{}
	}

	return []kubevirtv1.AccessCredential{{SSHPublicKey: &kubevirtv1.SSHPublicKeyAccessCredential{
		Source: kubevirtv1.SSHPublicKeyAccessCredentialSource{
			Secret: &kubevirtv1.AccessCredentialSecretSource{SecretName: SSHKeysSecretName(in.Name)},
		},
		PropagationMethod: method,
	}}}
}

// networkData returns the guest's network configuration. If empty, the image's own applies, which
// is DHCP on the first interface.
func networkData(in *spi.CreateMachineInput) string {
	if given := cloudInit(in.Spec).NetworkData; given != "" {
		return given
	}

	if !matchesByMAC(in.Spec) {
		return ""
	}

	return generatedNetworkData(in)
}

// matchesByMAC reports whether the driver generates network data that identifies secondary
// interfaces by their MAC addresses. The format of a config drive has no pattern for the primary
// interface, whose MAC address the provider network chooses.
func matchesByMAC(spec *v1alpha1.ProviderSpec) bool {
	if cloudInit(spec).NetworkData != "" || isConfigDrive(spec) {
		return false
	}

	for _, n := range spec.Networks {
		if !isPrimary(n) {
			return true
		}
	}

	return false
}

// generatedNetworkData configures all interfaces by DHCP. The MAC address of the primary interface
// is not known here, so its entry matches all remaining interfaces. Where cloud-init passes the
// data to netplan or systemd-networkd unchanged, the first matching entry in the order of names
// applies to an interface. Elsewhere, the name of an entry without a MAC address is used as the
// interface name: the primary interface is the first on KubeVirt's PCI bus. Its metric gives its
// default route precedence.
func generatedNetworkData(in *spi.CreateMachineInput) string {
	var b strings.Builder

	b.WriteString("version: 2\nethernets:\n")

	for i, n := range in.Spec.Networks {
		if !isPrimary(n) {
			name := secondaryName(i)
			fmt.Fprintf(&b, ethernet, "additional-"+name, fmt.Sprintf("macaddress: %q", stableMAC(in, name)), secondaryMetric, secondaryMetric)
			b.WriteString("    optional: true\n")
		}
	}

	fmt.Fprintf(&b, ethernet, primaryName, `name: "e*"`, primaryMetric, primaryMetric)

	return b.String()
}

const (
	ethernet = `  %s:
    match:
      %s
    dhcp4: true
    dhcp4-overrides:
      route-metric: %d
    dhcp6: true
    dhcp6-overrides:
      route-metric: %d
`
	// primaryName is the predictable name of the first interface of machine type q35. It sorts
	// after the names of additional interfaces.
	primaryName     = "enp1s0"
	primaryMetric   = 100
	secondaryMetric = 200
)

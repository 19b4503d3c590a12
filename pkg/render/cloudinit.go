// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

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

// networkData returns the guest's network configuration. If empty, the image's own applies.
func networkData(in *spi.CreateMachineInput) string {
	if generatesNetworkData(in) {
		return generatedNetworkData(in)
	}

	return cloudInit(in.Spec).NetworkData
}

// generatesNetworkData reports whether the driver generates network data: for several interfaces, and
// for one that changes its MAC address, to which cloud-init binds its own configuration, DHCP on any
// first interface. If its name is not known, the image's own configuration is better, which works until
// the first restart. The format of a config drive has no pattern for an interface whose MAC address the
// provider network chooses.
func generatesNetworkData(in *spi.CreateMachineInput) bool {
	if cloudInit(in.Spec).NetworkData != "" || isConfigDrive(in.Spec) {
		return false
	}

	return in.Spec.HasSecondaryNetworks() || in.Spec.ChangesMAC() && in.Spec.HasPredictableInterface(in.Architecture)
}

// generatedNetworkData configures all interfaces by DHCP. The MAC address of the primary interface
// may not be known here, so its entry matches all remaining interfaces. cloud-init passes the data to
// netplan unchanged, where the first matching entry in the order of names applies to an interface. Its
// other renderers (eni, networkd, network_manager, sysconfig in cloudinit/net) use the name of an entry
// without a MAC address as the interface name: the primary interface is the first on KubeVirt's PCI
// bus, or eth0 in images without predictable names. They do not mind an interface that does not exist:
// ifupdown fails, but configures the other one.
//
// One interface has what cloud-init's own default has in every version, DHCPv4: without a server for
// DHCPv6, ifupdown would wait forever, and NetworkManager (up to cloud-init 23.4) would give up. Router
// advertisements start DHCPv6 all the same. Of several interfaces, the primary one's metric gives its
// default route precedence.
func generatedNetworkData(in *spi.CreateMachineInput) string {
	var b strings.Builder

	b.WriteString("version: 2\nethernets:\n")

	entry := func(name, properties string, metric int) {
		fmt.Fprintf(&b, ethernet, name, properties)

		if in.Spec.HasSecondaryNetworks() {
			fmt.Fprintf(&b, ranked, metric, metric)
		}
	}

	for i, n := range in.Spec.Networks {
		if !n.IsPrimary() {
			name := secondaryName(i)
			entry("additional-"+name, match+fmt.Sprintf("macaddress: %q\n", stableMAC(in, name))+optional, secondaryMetric)
		}
	}

	entry(predictableName, match+"name: \"e*\"\n", primaryMetric)
	entry(unpredictableName, optional, primaryMetric)

	return b.String()
}

const (
	ethernet = "  %s:\n%s    dhcp4: true\n"
	ranked   = `    dhcp4-overrides:
      route-metric: %d
    dhcp6: true
    dhcp6-overrides:
      route-metric: %d
`
	match = `    match:
      `
	// optional keeps the boot from waiting for an interface.
	optional = "    optional: true\n"
	// predictableName is the predictable name of the first interface of machine type q35, and
	// unpredictableName its name without predictable names. Both sort after the names of additional
	// interfaces, and the entry with the pattern first.
	predictableName   = "enp1s0"
	unpredictableName = "eth0"
	primaryMetric     = 100
	secondaryMetric   = 200
)

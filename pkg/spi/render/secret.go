package render

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

const (
	// secretKeyUserData and secretKeyNetworkData are the keys KubeVirt reads (pkg/cloud-init/cloud-init.go).
	secretKeyUserData    = "userdata"
	secretKeyNetworkData = "networkdata"

	// networkData makes the guest configure every Ethernet interface by DHCP. A guest configures only the first one by
	// itself, so it is given when there may be more.
	networkData = `version: 2
ethernets:
  all:
    match:
      name: "e*"
    dhcp4: true
`
)

// UserDataSecret returns the Secret with what cloud-init reads. KubeVirt reads it at each start of the virtual machine, so it
// lives as long as that.
func UserDataSecret(in *spi.CreateMachineInput, namespace string) *corev1.Secret {
	data := map[string][]byte{secretKeyUserData: in.UserData}
	if len(in.Spec.Networks) > 0 {
		data[secretKeyNetworkData] = []byte(networkData)
	}

	return &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: corev1.SchemeGroupVersion.String(), Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Name: SecretName(in.Name), Namespace: namespace, Labels: Labels(in)},
		Type:       corev1.SecretTypeOpaque,
		Data:       data,
	}
}

// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/spi"
)

// secretKeyUserData and secretKeyNetworkData are the keys that KubeVirt reads
// (pkg/cloud-init/cloud-init.go).
const (
	secretKeyUserData    = "userdata"
	secretKeyNetworkData = "networkdata"
)

// Secrets returns the machine's Secrets: the one with the user data, and one with the
// SSH keys if there are any. KubeVirt reads them at each start of the virtual
// machine, so they must exist as long as it does.
func Secrets(in *spi.CreateMachineInput, namespace string) []*corev1.Secret {
	secrets := []*corev1.Secret{userDataSecret(in, namespace)}
	if len(in.Spec.SSHKeys) > 0 {
		secrets = append(secrets, sshKeysSecret(in, namespace))
	}

	return secrets
}

func userDataSecret(in *spi.CreateMachineInput, namespace string) *corev1.Secret {
	data := map[string][]byte{secretKeyUserData: in.UserData}
	if network := networkData(in); network != "" {
		data[secretKeyNetworkData] = []byte(network)
	}

	return secret(in, SecretName(in.Name), namespace, data)
}

// sshKeysSecret stores each SSH key in its own entry: KubeVirt treats
// every entry as a key, whatever its name.
func sshKeysSecret(in *spi.CreateMachineInput, namespace string) *corev1.Secret {
	data := make(map[string][]byte, len(in.Spec.SSHKeys))
	for i, key := range in.Spec.SSHKeys {
		data["key"+strconv.Itoa(i)] = []byte(strings.TrimSpace(key))
	}

	return secret(in, SSHKeysSecretName(in.Name), namespace, data)
}

func secret(in *spi.CreateMachineInput, name, namespace string, data map[string][]byte) *corev1.Secret {
	return &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: corev1.SchemeGroupVersion.String(), Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, Labels: objectLabels(in)},
		Type:       corev1.SecretTypeOpaque,
		Data:       data,
	}
}

package kubevirt

import (
	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	corev1 "k8s.io/api/core/v1"

	apiv1alpha1 "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
)

// kubeconfigSource says where the kubeconfig of a call is from, so that its faults can be found. Machine-controller-manager hands over
// the data of Secrets without their names, which are those that the MachineClass refers to: of two, the credentials' Secret is taken to
// have the kubeconfig, since its data win.
type kubeconfigSource string

// heldSource is the name of the Secret in which a driver passes on a kubeconfig that it holds itself.
const heldSource = "kubeconfig-dir"

// sourceOf returns the source for a class and its Secret.
func sourceOf(class *v1alpha1.MachineClass, secret *corev1.Secret) kubeconfigSource {
	if secret != nil && secret.Name == heldSource {
		return kubeconfigSource("the file of cluster " + identityOf(class).Cluster + " in --kubeconfig-dir")
	}

	if names := secretNames(class); len(names) > 0 {
		return kubeconfigSource("Secret " + names[len(names)-1] + ", key " + apiv1alpha1.SecretKeyKubeconfig)
	}

	return ""
}

// String returns what an error says of the source.
func (s kubeconfigSource) String() string {
	if s == "" {
		return theSecret + ", key " + apiv1alpha1.SecretKeyKubeconfig
	}

	return string(s)
}

// secretNames returns the Secrets that a class refers to, as namespace/name. The data of the last one win.
func secretNames(class *v1alpha1.MachineClass) []string {
	if class == nil {
		return nil
	}

	var names []string

	for _, ref := range []*corev1.SecretReference{class.SecretRef, class.CredentialsSecretRef} {
		if ref != nil {
			names = append(names, ref.Namespace+"/"+ref.Name)
		}
	}

	return names
}

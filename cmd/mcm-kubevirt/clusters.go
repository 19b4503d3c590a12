package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	machineclient "github.com/gardener/machine-controller-manager/pkg/client/clientset/versioned"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// controlTimeout bounds one request to the control cluster.
const controlTimeout = 10 * time.Second

// clusterFlags say how to reach the control and the provider cluster. In a pod of the control cluster, none is needed.
type clusterFlags struct {
	controlKubeconfig  string
	providerKubeconfig string
	namespace          string
}

func (f *clusterFlags) addTo(flags *pflag.FlagSet) {
	flags.StringVar(&f.controlKubeconfig, "control-kubeconfig", "",
		"File with the kubeconfig of the control cluster, which holds MachineClasses and Machines. By default what kubectl takes too: "+
			"$KUBECONFIG, ~/.kube/config or, in a pod, its service account.")
	flags.StringVar(&f.providerKubeconfig, "provider-kubeconfig", "",
		"File with a kubeconfig of the provider cluster, which runs KubeVirt, to use instead of that in the MachineClass's Secret. The "+
			"same is allowed in it: no programs, no paths of other files.")
	flags.StringVar(&f.namespace, "namespace", "",
		"Namespace in the control cluster. By default that of the kubeconfig or, in a pod, the pod's.")
}

// controlCluster is where MachineClasses, Machines and their Secrets are, seen from one namespace.
type controlCluster struct {
	Machines   machineclient.Interface
	Kubernetes kubernetes.Interface
	Namespace  string
}

// control returns the control cluster. Its kubeconfig is the user's own, so that it may also run a program that logs in.
func (f *clusterFlags) control() (*controlCluster, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = f.controlKubeconfig

	loaded := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{
		Context: clientcmdapi.Context{Namespace: f.namespace},
	})

	config, err := loaded.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig of the control cluster; --control-kubeconfig names it: %w", err)
	}

	namespace, _, err := loaded.Namespace()
	if err != nil {
		return nil, fmt.Errorf("find the namespace in the control cluster; --namespace names it: %w", err)
	}

	config = rest.AddUserAgent(config, "mcm-kubevirt")
	config.Timeout = controlTimeout

	machines, err := machineclient.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make client of the control cluster's Machines: %w", err)
	}

	core, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make client of the control cluster: %w", err)
	}

	return &controlCluster{Machines: machines, Kubernetes: core, Namespace: namespace}, nil
}

// provider returns the content of --provider-kubeconfig; nil without that flag. It is for pkg/kubeconfig to read.
func (f *clusterFlags) provider() ([]byte, error) {
	if f.providerKubeconfig == "" {
		return nil, nil
	}

	raw, err := os.ReadFile(f.providerKubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read --provider-kubeconfig: %w", err)
	}

	return raw, nil
}

// secretData returns what machine-controller-manager hands to the driver for a class: the data of both Secrets that it refers to, of
// which the credentials' wins. The provider cluster's kubeconfig is among it, with the key v1alpha1.SecretKeyKubeconfig.
func (c *controlCluster) secretData(ctx context.Context, class *v1alpha1.MachineClass) (map[string][]byte, error) {
	data := map[string][]byte{}

	for _, ref := range []*corev1.SecretReference{class.SecretRef, class.CredentialsSecretRef} {
		if ref == nil {
			continue
		}

		found, err := c.Kubernetes.CoreV1().Secrets(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
		if err != nil {
			return nil, fmt.Errorf("get Secret %s/%s of MachineClass %s: %w", ref.Namespace, ref.Name, class.Name, err)
		}

		maps.Copy(data, found.Data)
	}

	return data, nil
}

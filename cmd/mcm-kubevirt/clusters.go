package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"strings"
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
	"k8s.io/klog/v2"
)

// controlTimeout bounds one request to the control cluster.
const controlTimeout = 10 * time.Second

// clusterFlags specify how to reach the control and the provider cluster. In a
// pod of the control cluster, none is needed.
type clusterFlags struct {
	kubeconfig         string
	context            string
	namespace          string
	allNamespaces      bool
	providerKubeconfig string
}

func (f *clusterFlags) addTo(flags *pflag.FlagSet) {
	flags.StringVar(&f.kubeconfig, "kubeconfig", "",
		"Path to the kubeconfig of the control cluster, which contains the MachineClasses and Machines; set it to use another file than "+
			"$KUBECONFIG and ~/.kube/config or, in a pod, the service account. Alias: --control-kubeconfig.")
	flags.StringVar(&f.context, "context", "", "Context in the kubeconfig of the control cluster; set it to use another context than the current one.")
	flags.StringVarP(&f.namespace, "namespace", "n", "",
		"Namespace in the control cluster; set it to use another namespace than that of the context or, in a pod, of the pod.")
	flags.BoolVarP(&f.allNamespaces, "all-namespaces", "A", false, "Use all namespaces of the control cluster instead of one.")
	flags.StringVar(&f.providerKubeconfig, "provider-kubeconfig", "",
		"Path to a kubeconfig of the provider cluster, which runs KubeVirt; set it if the MachineClass's Secret contains none, or to use an "+
			"admin's. Exec plugins and paths of other files in it are refused, as by the driver.")
	flags.SetNormalizeFunc(normalizeFlag)
}

// normalizeFlag accepts machine-controller-manager's name for the flag with the kubeconfig of the
// control cluster, beside kubectl's.
func normalizeFlag(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	if name == "control-kubeconfig" {
		name = "kubeconfig"
	}

	return pflag.NormalizedName(name)
}

// controlCluster gives access to MachineClasses, Machines and their Secrets in one namespace.
type controlCluster struct {
	Machines   machineclient.Interface
	Kubernetes kubernetes.Interface
	// Namespace is empty for all namespaces.
	Namespace string
}

// in returns the control cluster with another namespace.
func (c *controlCluster) in(namespace string) *controlCluster {
	return &controlCluster{Machines: c.Machines, Kubernetes: c.Kubernetes, Namespace: namespace}
}

// where describes the namespace in messages.
func (c *controlCluster) where() string {
	if c.Namespace == metav1.NamespaceAll {
		return "any namespace of the control cluster"
	}

	return "namespace " + c.Namespace + " of the control cluster"
}

// control returns the control cluster. Its kubeconfig is the
// user's own, so it may run an exec plugin.
func (f *clusterFlags) control() (*controlCluster, error) {
	if f.allNamespaces && f.namespace != "" {
		return nil, errors.New("--namespace (-n) and --all-namespaces (-A) are mutually exclusive; remove one")
	}

	loaded, err := f.load()
	if err != nil {
		return nil, err
	}

	config, err := loaded.ClientConfig()
	if err != nil {
		return nil, f.explain(err)
	}

	namespace, _, err := loaded.Namespace()
	if err != nil {
		return nil, fmt.Errorf("determine the namespace in the control cluster: %w; set --namespace (-n)", err)
	}

	if f.allNamespaces {
		namespace = metav1.NamespaceAll
	}

	config = rest.AddUserAgent(config, "mcm-kubevirt")
	config.Timeout = controlTimeout

	machines, err := machineclient.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("create the client for Machines in the control cluster: %w", err)
	}

	core, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("create the client for the control cluster: %w", err)
	}

	return &controlCluster{Machines: machines, Kubernetes: core, Namespace: namespace}, nil
}

// load reads the kubeconfig lazily, with kubectl's rules.
func (f *clusterFlags) load() (clientcmd.ClientConfig, error) {
	if f.kubeconfig != "" {
		if _, err := os.Stat(f.kubeconfig); err != nil {
			return nil, fmt.Errorf("read --kubeconfig: %w; set it to the kubeconfig of the control cluster", err)
		}
	}

	rules := f.rules()

	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{
		CurrentContext: f.context, Context: clientcmdapi.Context{Namespace: f.namespace},
	}), nil
}

func (f *clusterFlags) rules() *clientcmd.ClientConfigLoadingRules {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = f.kubeconfig
	rules.WarnIfAllMissing = false // explain reports it.

	return rules
}

// explain lists the files that were tried if there is no kubeconfig at all; client-go does not.
func (f *clusterFlags) explain(err error) error {
	if !clientcmd.IsEmptyConfig(err) {
		return fmt.Errorf("read the kubeconfig of the control cluster: %w; select another one with --kubeconfig or --context", err)
	}

	return fmt.Errorf("no kubeconfig for the control cluster: none of these files exists and contains a cluster: %s; set --kubeconfig or $KUBECONFIG",
		strings.Join(f.rules().GetLoadingPrecedence(), ", "))
}

// provider returns the content of --provider-kubeconfig; nil
// without that flag. pkg/kubeconfig parses it.
func (f *clusterFlags) provider() ([]byte, error) {
	if f.providerKubeconfig == "" {
		return nil, nil
	}

	raw, err := os.ReadFile(f.providerKubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read --provider-kubeconfig: %w; set it to a kubeconfig of the provider cluster", err)
	}

	return raw, nil
}

// discardLogs discards the log of the driver's packages, which is intended for a long-running
// process: for example, they log each kubeconfig that points to a different server or namespace.
// Errors are still written to standard error.
func discardLogs() {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
}

// secretData returns the data that machine-controller-manager passes to the driver for a class:
// that of both referenced Secrets, where credentialsSecretRef takes precedence. It includes the
// kubeconfig of the provider cluster, with the key v1alpha1.SecretKeyKubeconfig.
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

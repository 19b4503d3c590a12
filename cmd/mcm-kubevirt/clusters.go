package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	machineclient "github.com/gardener/machine-controller-manager/pkg/client/clientset/versioned/typed/machine/v1alpha1"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/klog/v2"

	apiv1alpha1 "github.com/gardener/machine-controller-manager-provider-kubevirt/api/v1alpha1"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/pkg/statustext"
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

func (f *clusterFlags) addTo(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.kubeconfig, "kubeconfig", "",
		"Path to the kubeconfig of the control cluster, which contains the MachineClasses and Machines; set it to use a file other than "+
			"$KUBECONFIG and ~/.kube/config or, in a pod, the service account. Alias: --control-kubeconfig.")
	flags.StringVar(&f.context, "context", "", "Context in the kubeconfig of the control cluster; set it to use a context other than the current one.")
	flags.StringVarP(&f.namespace, "namespace", "n", "",
		"Namespace in the control cluster; set it to use a namespace other than that of the context or, in a pod, of the pod.")
	flags.BoolVarP(&f.allNamespaces, "all-namespaces", "A", false, "Use all namespaces of the control cluster instead of one.")
	flags.StringVar(&f.providerKubeconfig, "provider-kubeconfig", "",
		"Path to a kubeconfig of the provider cluster, which runs KubeVirt; set it if the MachineClass's Secret contains none, or to use an "+
			"admin's. Exec plugins and paths of other files in it are refused, as by the driver.")
	flags.SetNormalizeFunc(normalizeFlag)
	completeFlag(cmd, "context", completing(f.contexts))
	completeFlag(cmd, "namespace", completing(f.namespaces))
}

// normalizeFlag accepts machine-controller-manager's name for the flag with the kubeconfig of the
// control cluster, in addition to kubectl's.
func normalizeFlag(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	if name == "control-kubeconfig" {
		name = "kubeconfig"
	}

	return pflag.NormalizedName(name)
}

// controlCluster gives access to MachineClasses, Machines and their Secrets in one namespace.
type controlCluster struct {
	Machines   machineclient.MachineV1alpha1Interface
	Kubernetes kubernetes.Interface
	// Dynamic reads Gardener's objects, whose types this module does not import.
	Dynamic dynamic.Interface
	// Namespace is empty for all namespaces.
	Namespace string
}

// in returns the control cluster with another namespace.
func (c *controlCluster) in(namespace string) *controlCluster {
	return &controlCluster{Machines: c.Machines, Kubernetes: c.Kubernetes, Dynamic: c.Dynamic, Namespace: namespace}
}

func (c *controlCluster) machines() machineclient.MachineInterface {
	return c.Machines.Machines(c.Namespace)
}

// where describes the namespace in messages.
func (c *controlCluster) where() string {
	if c.Namespace == metav1.NamespaceAll {
		return "any namespace of the control cluster"
	}

	return "namespace " + c.Namespace + " of the control cluster"
}

// control returns the control cluster. Its kubeconfig, which is read with kubectl's rules, is the
// user's own, so it may run an exec plugin.
func (f *clusterFlags) control() (*controlCluster, error) {
	if f.allNamespaces && f.namespace != "" {
		return nil, errors.New("--namespace (-n) and --all-namespaces (-A) are mutually exclusive; remove one")
	}

	loaded := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(f.rules(), &clientcmd.ConfigOverrides{
		CurrentContext: f.context,
		Context:        clientcmdapi.Context{Namespace: f.namespace},
	})

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

	machines, machinesErr := machineclient.NewForConfig(config)
	core, coreErr := kubernetes.NewForConfig(config)
	objects, objectsErr := dynamic.NewForConfig(config)

	if err := errors.Join(machinesErr, coreErr, objectsErr); err != nil {
		return nil, fmt.Errorf("create the clients for the control cluster: %w", err)
	}

	return &controlCluster{Machines: machines, Kubernetes: core, Dynamic: objects, Namespace: namespace}, nil
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

// visibility is whether machine-controller-manager can read a Secret. It
// watches only the namespace of the MachineClass.
type visibility string

const (
	secretFound     visibility = "Found"
	secretMissing   visibility = "Missing"
	secretElsewhere visibility = "OtherNamespace"
	secretNotRead   visibility = "NotRead"
)

// secretState is a Secret that a MachineClass refers to. Only the names of the driver's keys are
// shown, not its values.
type secretState struct {
	Namespace string     `json:"namespace"`
	Name      string     `json:"name"`
	State     visibility `json:"state"`
	// Keys are the driver's keys in the Secret.
	Keys []string `json:"keys,omitempty"`
	// Err is why the Secret was not read.
	Err error `json:"-"`
}

func (s *secretState) path() string { return s.Namespace + "/" + s.Name }

// classSecrets are the Secrets of a class, and the data that
// machine-controller-manager passes to the driver.
type classSecrets struct {
	states []secretState
	data   map[string][]byte
}

// secretsOf reads the Secrets of a class in a namespace, or in all namespaces if it is empty. Like
// machine-controller-manager, it ignores the data of all other Secrets.
func (c *controlCluster) secretsOf(ctx context.Context, class *v1alpha1.MachineClass, namespace string) classSecrets {
	found := classSecrets{data: map[string][]byte{}}

	for _, ref := range secretRefs(class) {
		s := secretState{Namespace: statustext.Printable(ref.Namespace), Name: statustext.Printable(ref.Name), State: secretElsewhere}
		if namespace == metav1.NamespaceAll || namespace == ref.Namespace {
			maps.Copy(found.data, c.secret(ctx, ref, &s))
		}

		found.states = append(found.states, s)
	}

	return found
}

// secret reads a Secret, sets its state, and returns its data.
func (c *controlCluster) secret(ctx context.Context, ref *corev1.SecretReference, s *secretState) map[string][]byte {
	secret, err := c.Kubernetes.CoreV1().Secrets(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})

	switch {
	case apierrors.IsNotFound(err):
		s.State = secretMissing
		s.Err = err

		return nil
	case err != nil:
		s.State = secretNotRead
		s.Err = err

		return nil
	}

	s.State = secretFound

	for _, key := range []string{apiv1alpha1.SecretKeyKubeconfig, apiv1alpha1.SecretKeyUserData} {
		if len(secret.Data[key]) > 0 {
			s.Keys = append(s.Keys, key)
		}
	}

	return secret.Data
}

// secretData returns the data of a class's Secrets in any namespace, or why one was not read.
func (c *controlCluster) secretData(ctx context.Context, class *v1alpha1.MachineClass) (map[string][]byte, error) {
	found := c.secretsOf(ctx, class, metav1.NamespaceAll)
	if err := found.err(class, secretMissing, secretNotRead); err != nil {
		return nil, err
	}

	return found.data, nil
}

// err returns the error of a Secret in one of the states; nil if there is none.
func (s *classSecrets) err(class *v1alpha1.MachineClass, states ...visibility) error {
	for _, found := range s.states {
		if slices.Contains(states, found.State) {
			return fmt.Errorf("get Secret %s of MachineClass %s: %w", found.path(), class.Name, found.Err)
		}
	}

	return nil
}

// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package controlcluster reads the control cluster for the commands preflight and diagnose: MachineClasses, Machines,
// their Secrets, and the leases of the controllers. It must not depend on why they are read.
package controlcluster

import (
	"errors"
	"fmt"
	"os"
	"strings"

	machineclient "github.com/gardener/machine-controller-manager/pkg/client/clientset/versioned/typed/machine/v1alpha1"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/tools/output"
)

// Flags specify how to reach the control cluster, as kubectl's do, and the provider cluster. In a pod of the control
// cluster, none is needed.
type Flags struct {
	*genericclioptions.ConfigFlags

	AllNamespaces bool
	// ProviderKubeconfig is the path to a kubeconfig of the provider cluster.
	ProviderKubeconfig string

	// timeout bounds one request. ConfigFlags must not know it: client-go ignores the service account of a pod if
	// there is a timeout.
	timeout *string
}

// NewFlags returns the flags with their defaults.
func NewFlags() *Flags {
	f := &Flags{ConfigFlags: genericclioptions.NewConfigFlags(false), timeout: new("10s")}
	f.CacheDir = nil    // for discovery, which is not used
	f.ClusterName = nil // --cluster of diagnose is a tag of machines.
	f.Timeout = nil

	return f
}

// AddTo adds the flags to a command.
func (f *Flags) AddTo(cmd *cobra.Command) {
	flags := cmd.Flags()
	f.AddFlags(flags)
	flags.Lookup("kubeconfig").Usage = "Path to the kubeconfig of the control cluster, which contains the MachineClasses and Machines; set it to use a " +
		"file other than $KUBECONFIG and ~/.kube/config or, in a pod, the service account. Alias: --control-kubeconfig."
	flags.Lookup("namespace").Usage = "Namespace in the control cluster; set it to use a namespace other than that of the context or, in a pod, of the pod."
	flags.StringVar(f.timeout, "request-timeout", *f.timeout, "Maximum time of one request to the control cluster, such as 30s; 0 for no limit.")
	flags.BoolVarP(&f.AllNamespaces, "all-namespaces", "A", false, "Use all namespaces of the control cluster instead of one.")
	flags.StringVar(&f.ProviderKubeconfig, "provider-kubeconfig", "",
		"Path to a kubeconfig of the provider cluster, which runs KubeVirt; set it if the MachineClass's Secret contains none, or to use an "+
			"admin's. Exec plugins and paths of other files in it are refused, as by the driver.")
	flags.SetNormalizeFunc(normalizeFlag)
	output.CompleteFlag(cmd, "context", output.Completing(f.contexts))
	output.CompleteFlag(cmd, "namespace", output.Completing(f.namespaces))
}

// With returns a copy of the flags for another kubeconfig. Impersonation is kept.
func (f *Flags) With(kubeconfig string) *Flags {
	other := NewFlags()
	other.KubeConfig = &kubeconfig
	other.Impersonate = f.Impersonate
	other.ImpersonateUID = f.ImpersonateUID
	other.ImpersonateGroup = f.ImpersonateGroup
	other.timeout = f.timeout
	other.ProviderKubeconfig = f.ProviderKubeconfig

	return other
}

// RefuseImpersonation refuses the flags that impersonate a user, for a command that does not use the control cluster,
// for this reason: the user would expect that they take effect.
func (f *Flags) RefuseImpersonation(reason string) error {
	flag := ""

	switch {
	case *f.Impersonate != "":
		flag = "--as"
	case *f.ImpersonateUID != "":
		flag = "--as-uid"
	case len(*f.ImpersonateGroup) > 0:
		flag = "--as-group"
	default:
		return nil
	}

	return fmt.Errorf("%s applies to the control cluster, which is not used, since %s; remove the flag", flag, reason)
}

// normalizeFlag accepts machine-controller-manager's name for the flag with the kubeconfig of the
// control cluster, in addition to kubectl's.
func normalizeFlag(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	if name == "control-kubeconfig" {
		name = "kubeconfig"
	}

	return pflag.NormalizedName(name)
}

// Cluster gives access to MachineClasses, Machines and their Secrets in one namespace.
type Cluster struct {
	Machines   machineclient.MachineV1alpha1Interface
	Kubernetes kubernetes.Interface
	// Dynamic reads Gardener's objects, whose types this module does not import.
	Dynamic dynamic.Interface
	// Namespace is empty for all namespaces.
	Namespace string
}

// In returns the control cluster with another namespace.
func (c *Cluster) In(namespace string) *Cluster {
	return &Cluster{Machines: c.Machines, Kubernetes: c.Kubernetes, Dynamic: c.Dynamic, Namespace: namespace}
}

// Where describes the namespace in messages.
func (c *Cluster) Where() string {
	if c.Namespace == metav1.NamespaceAll {
		return "any namespace of the control cluster"
	}

	return "namespace " + c.Namespace + " of the control cluster"
}

// Control returns the control cluster. Its kubeconfig, which is read with kubectl's rules, is the
// user's own, so it may run an exec plugin.
func (f *Flags) Control() (*Cluster, error) {
	if f.AllNamespaces && *f.Namespace != "" {
		return nil, errors.New("--namespace (-n) and --all-namespaces (-A) are mutually exclusive; remove one")
	}

	config, err := f.config()
	if err != nil {
		return nil, err
	}

	namespace, _, err := f.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return nil, fmt.Errorf("determine the namespace in the control cluster: %w; set --namespace (-n)", err)
	}

	if f.AllNamespaces {
		namespace = metav1.NamespaceAll
	}

	machines, machinesErr := machineclient.NewForConfig(config)
	core, coreErr := kubernetes.NewForConfig(config)
	objects, objectsErr := dynamic.NewForConfig(config)

	if err := errors.Join(machinesErr, coreErr, objectsErr); err != nil {
		return nil, fmt.Errorf("create the clients for the control cluster: %w", err)
	}

	return &Cluster{Machines: machines, Kubernetes: core, Dynamic: objects, Namespace: namespace}, nil
}

// config returns the configuration of clients. An error lists the files that were tried if there is no kubeconfig at
// all; client-go would use a server on this host.
func (f *Flags) config() (*rest.Config, error) {
	loader := f.ToRawKubeConfigLoader()

	config, err := loader.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig of the control cluster: %w; select another one with --kubeconfig or --context", err)
	}

	if config.Host == clientcmd.ClusterDefaults.Server {
		if raw, err := loader.RawConfig(); err == nil && len(raw.Clusters) == 0 {
			return nil, fmt.Errorf("no kubeconfig for the control cluster: none of these files exists and contains a cluster: %s; set --kubeconfig or $KUBECONFIG",
				strings.Join(loader.ConfigAccess().GetLoadingPrecedence(), ", "))
		}
	}

	if config.Timeout, err = clientcmd.ParseTimeout(*f.timeout); err != nil {
		return nil, fmt.Errorf("--request-timeout: %w", err)
	}

	return rest.AddUserAgent(config, "mcm-kubevirt"), nil
}

// Provider returns the content of --provider-kubeconfig; nil
// without that flag. pkg/kubeconfig parses it.
func (f *Flags) Provider() ([]byte, error) {
	if f.ProviderKubeconfig == "" {
		return nil, nil
	}

	raw, err := os.ReadFile(f.ProviderKubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read --provider-kubeconfig: %w; set it to a kubeconfig of the provider cluster", err)
	}

	return raw, nil
}

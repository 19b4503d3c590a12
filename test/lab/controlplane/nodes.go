// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Nodes describes how the API server of the provider cluster and its real nodes reach each other.
type Nodes struct {
	// Server is the IP address of the API server in the nodes' network. The API server listens on all
	// addresses of its network namespace.
	Server string
	// Names are those of the Nodes.
	Names []string
	// Emulation is for machines without KVM.
	Emulation bool
	// VirtHandler is a file with the DaemonSet of virt-handler, in JSON.
	VirtHandler string
	// Multus is a file with its manifests.
	Multus string
}

// SharedProvisioner is the name of the driver of StorageShared.
const SharedProvisioner = "shared.lab.local"

// kubeletUser is the beginning of kubelets' users.
const kubeletUser = "system:node:"

// handlerClient is the certificate with which virt-api calls virt-handler, and handlerClientName the only name that virt-handler
// accepts.
const (
	handlerClient     = "virt-handler-client"
	handlerClientName = "kubevirt.io:system:client:virt-handler"
)

func (o Options) kubeletUsers() []string {
	if o.Nodes == nil {
		return nil
	}
	var users []string
	for _, name := range o.Nodes.Names {
		users = append(users, kubeletUser+name)
	}
	return users
}

func (o Options) bindAddress() string {
	if o.Nodes != nil || o.Kubelets != nil {
		return "0.0.0.0"
	}
	return loopback
}

// prepareNodes writes the certificate with which the API server authenticates to kubelets.
func (c *Cluster) prepareNodes() error {
	if c.options.Nodes == nil {
		return nil
	}
	return c.pki.issueInto("kubelet-client", c.pki.ca, kubeletClient)
}

// nodeArgs are the API server's arguments for real nodes.
func (c *Cluster) nodeArgs() []string {
	if c.options.Nodes == nil {
		return nil
	}
	return c.nodeClientArgs()
}

// nodeClientArgs are the API server's arguments as a client of kubelets, the names of whose Nodes are not in any DNS.
func (c *Cluster) nodeClientArgs() []string {
	return []string{
		"--enable-admission-plugins=NodeRestriction",
		"--kubelet-client-certificate=" + c.pki.file("kubelet-client.crt"),
		"--kubelet-client-key=" + c.pki.file("kubelet-client.key"),
		"--kubelet-preferred-address-types=InternalIP",
	}
}

// serviceRange returns that of the cluster. Without real nodes, there is no kube-proxy, and the addresses must reach nothing outside this
// machine.
func (o Options) serviceRange() string {
	if o.Nodes != nil {
		return "10.96.0.0/16"
	}
	return "127.96.0.0/16"
}

// ProxyKubeconfig returns the kubeconfig of kube-proxy on real nodes.
func (c *Cluster) ProxyKubeconfig() ([]byte, error) {
	return kubeconfig(c.Name, c.nodeURL(), c.pki.ca.pem, c.identities[kubeProxy].token, "")
}

// StartDNS starts CoreDNS for the pods of real nodes, on the address of the API server in their network.
func (c *Cluster) StartDNS(ctx context.Context) error {
	role := named("rbac.authorization.k8s.io/v1", "ClusterRole", coreDNS)
	role["rules"] = []any{
		object{"apiGroups": []any{""}, "resources": []any{"services", "namespaces"}, "verbs": []any{"list", "watch"}},
		object{"apiGroups": []any{"discovery.k8s.io"}, "resources": []any{"endpointslices"}, "verbs": []any{"list", "watch"}},
	}
	err := c.apply(ctx, []unstructured.Unstructured{{Object: role}, clusterRoleBinding(coreDNS, coreDNS, "User", coreDNS)})
	if err != nil {
		return err
	}
	file, err := c.writeKubeconfig(coreDNS, "coredns")
	if err != nil {
		return err
	}
	configuration := filepath.Join(c.dir, "Corefile")
	text := fmt.Sprintf(".:53 {\n\tbind %s\n\terrors\n\tkubernetes cluster.local {\n\t\tkubeconfig %s\n\t}\n}\n", c.options.Nodes.Server, file)
	if err := os.WriteFile(configuration, []byte(text), 0o600); err != nil {
		return fmt.Errorf("write the configuration of CoreDNS: %w", err)
	}
	_, err = c.start("coredns", c.options.Binaries.CoreDNS, "-conf="+configuration)
	return err
}

// CA returns the certificate of the cluster's authority, in PEM.
func (c *Cluster) CA() []byte { return c.pki.ca.pem }

// KubeletKubeconfig returns the kubeconfig of the kubelet of a real node.
func (c *Cluster) KubeletKubeconfig(node string) ([]byte, error) {
	return kubeconfig(c.Name, c.nodeURL(), c.pki.ca.pem, c.identities[kubeletUser+node].token, "")
}

// nodeURL returns the URL of the API server in the nodes' network.
func (c *Cluster) nodeURL() string {
	return strings.Replace(c.ServerURL, loopback, c.options.Nodes.Server, 1)
}

// developerConfiguration returns that of the KubeVirt resource.
func (o Options) developerConfiguration() object {
	configuration := object{"featureGates": []any{"HotplugVolumes", "Snapshot", "VMExport", "ExpandDisks"}}
	if o.Nodes != nil {
		configuration["useEmulation"] = o.Nodes.Emulation
		configuration["disabledFeatureGates"] = []any{"ImageVolume"} // needs containerd 2, which Debian 13 does not have
	}
	return configuration
}

// StartVirtHandler applies the DaemonSet of virt-handler, and the certificates that KubeVirt's operator gives it. It does not
// wait for its pods.
func (c *Cluster) StartVirtHandler(ctx context.Context) error {
	set, err := c.virtHandler()
	if err != nil {
		return err
	}
	objects := []unstructured.Unstructured{set}
	for secret, name := range map[string]string{
		"kubevirt-virt-handler-server-certs":           "kubevirt.io:system:node:virt-handler",
		"kubevirt-virt-handler-certs":                  handlerClientName,
		"kubevirt-virt-handler-migration-client-certs": "kubevirt.io:system:client:migration",
		"kubevirt-virt-handler-vsock-client-certs":     "kubevirt.io:system:client:vsock",
	} {
		certificate, key, err := c.pki.ca.issue(name, "virt-handler", "virt-handler.kubevirt.pod.cluster.local")
		if err != nil {
			return err
		}
		o := within("kubevirt", named("v1", "Secret", secret))
		o["type"] = "kubernetes.io/tls"
		o["stringData"] = object{"tls.crt": string(certificate), "tls.key": string(key)}
		objects = append(objects, unstructured.Unstructured{Object: o})
	}
	return c.apply(ctx, objects)
}

// virtHandler returns the DaemonSet of virt-handler, adapted to the lab: the Service of the API server has no endpoints, since those on loopback are
// refused.
func (c *Cluster) virtHandler() (unstructured.Unstructured, error) {
	set := unstructured.Unstructured{}
	data, err := os.ReadFile(filepath.Clean(c.options.Nodes.VirtHandler))
	if err != nil {
		return set, fmt.Errorf("read the DaemonSet of virt-handler: %w", err)
	}
	if err := json.Unmarshal(data, &set.Object); err != nil {
		return set, fmt.Errorf("decode the DaemonSet of virt-handler: %w", err)
	}
	delete(set.Object, "status")
	host, port, _ := strings.Cut(strings.TrimPrefix(c.nodeURL(), "https://"), ":")
	environment := map[string]string{"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}
	if err := setEnvironment(set, environment); err != nil {
		return set, err
	}
	if err := probeSoon(set); err != nil {
		return set, err
	}
	if !c.options.Nodes.Emulation {
		return set, nil
	}
	// Otherwise node-labeller makes /dev/kvm wherever the kernel knows the device, and tries it.
	return set, changeContainers(set, "initContainers", func(labeller object) {
		labeller["args"] = []any{"mount --bind /dev/null /proc/misc && exec node-labeller.sh"}
	})
}

// probeSoon makes virt-handler ready when it is: its first probes are after 15 and 35 s.
func probeSoon(set unstructured.Unstructured) error {
	return changeContainers(set, "containers", func(container object) {
		if probe, ok := container["readinessProbe"].(object); ok {
			probe["initialDelaySeconds"] = int64(1)
			probe["periodSeconds"] = int64(1)
		}
	})
}

// setEnvironment sets environment variables of all containers of a DaemonSet.
func setEnvironment(set unstructured.Unstructured, values map[string]string) error {
	return changeContainers(set, "containers", func(container object) {
		var variables []any
		old, _ := container["env"].([]any) // or none
		for _, variable := range old {
			if v, ok := variable.(object); ok && values[fmt.Sprint(v["name"])] == "" {
				variables = append(variables, v)
			}
		}
		for name, value := range values {
			variables = append(variables, object{"name": name, "value": value})
		}
		container["env"] = variables
	})
}

// changeContainers changes all containers of a kind in a DaemonSet.
func changeContainers(set unstructured.Unstructured, kind string, change func(container object)) error {
	path := []string{"spec", "template", "spec", kind}
	containers, _, err := unstructured.NestedSlice(set.Object, path...)
	if err != nil {
		return fmt.Errorf("read %s of %s: %w", kind, set.GetName(), err)
	}
	for _, c := range containers {
		container, ok := c.(object)
		if !ok {
			return fmt.Errorf("read %s of %s: one is a %T", kind, set.GetName(), c)
		}
		change(container)
	}
	return unstructured.SetNestedSlice(set.Object, containers, path...)
}

// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/process"
)

// Region and Zone are those of all real nodes: machines can only migrate within a zone.
const (
	Region = "local"
	Zone   = "zone-a"
)

// isolatedVariable is the environment variable of a program that Isolate has started.
const isolatedVariable = "LAB_ISOLATED"

// Isolated reports whether Isolate has started this program, which then cannot use the network of the machine.
func Isolated() bool { return isolated || os.Getenv(isolatedVariable) != "" }

// isolated is whether this process has namespaces of its own.
var isolated bool

//go:embed files
var files embed.FS

// Options configures the nodes of a lab.
type Options struct {
	Dir     string         // for the nodes' data; created
	LogDir  string         // for a folder per node
	Group   *process.Group // owns the nodes' first processes
	Root    string         // the folder of package root
	Images  string         // the folder of package images
	Runc    string
	Kubelet string
	Proxy   string // kube-proxy; empty: none
	Multus  string // empty: pods have only the pod network
	// Cgroup is the beginning of the names of the nodes' cgroups.
	Cgroup string
	Count  int
}

// Nodes are the real nodes of a lab, and the network that joins them.
type Nodes struct {
	options Options
	nodes   []*node
}

// node is one of them.
type node struct {
	name    string
	index   int
	dir     string
	log     string
	process *process.Process
	input   *os.File // ends the node when it is closed
}

// Names returns the names of a number of nodes.
func Names(count int) []string {
	var names []string
	for i := range count {
		names = append(names, fmt.Sprintf("provider-a-%d", i))
	}
	return names
}

// New makes the network of the nodes in the network namespace of this process, which must be one of its own (Isolate).
func New(ctx context.Context, o Options) (*Nodes, error) {
	if !isolated {
		return nil, errors.New("real nodes need namespaces of their own: call node.Isolate at the beginning of the program")
	}
	n := &Nodes{options: o}
	for i, name := range Names(o.Count) {
		n.nodes = append(n.nodes, &node{
			name:  name,
			index: i,
			dir:   filepath.Join(o.Dir, name),
			log:   filepath.Join(o.LogDir, name),
		})
	}
	if err := n.connect(ctx); err != nil {
		return nil, fmt.Errorf("make the network of the nodes: %w", err)
	}
	return n, nil
}

// Credentials are those of kubelets in the API server.
type Credentials struct {
	CA         []byte // in PEM
	Kubeconfig func(node string) ([]byte, error)
	Proxy      []byte // the kubeconfig of kube-proxy
	Multus     []byte // the kubeconfig of Multus
}

// Start starts all nodes, which then import their images. It does not wait for that, and needs no API server.
func (n *Nodes) Start() error {
	for _, one := range n.nodes {
		if err := n.start(one); err != nil {
			return fmt.Errorf("start node %s: %w", one.name, err)
		}
	}
	return nil
}

// Join lets the kubelets join the cluster. It does not wait until the nodes are ready.
func (n *Nodes) Join(c Credentials) error {
	for _, one := range n.nodes {
		if err := one.join(c); err != nil {
			return fmt.Errorf("let node %s join: %w", one.name, err)
		}
	}
	return nil
}

// join writes the credentials. The node waits for the kubeconfig, which must be complete when it appears.
func (n *node) join(c Credentials) error {
	kubeconfig, err := c.Kubeconfig(n.name)
	if err != nil {
		return err
	}
	for name, data := range map[string][]byte{"ca.crt": c.CA, "kube-proxy.kubeconfig": c.Proxy, "multus.kubeconfig": c.Multus} {
		if err := os.WriteFile(filepath.Join(n.lab(), name), data, 0o600); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
	}
	incomplete := filepath.Join(n.lab(), "kubeconfig.new")
	if err := os.WriteFile(incomplete, kubeconfig, 0o600); err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	return os.Rename(incomplete, filepath.Join(n.lab(), "kubeconfig"))
}

// lab returns the folder of the node's configuration, which it mounts.
func (n *node) lab() string { return filepath.Join(n.dir, "lab") }

func (n *Nodes) start(one *node) error {
	if err := n.writeFiles(one); err != nil {
		return err
	}
	if err := n.writeBundle(one); err != nil {
		return err
	}
	input, output, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("create pipe: %w", err)
	}
	defer input.Close() //nolint:errcheck // the node has its own copy
	// The root folder is mounted in a namespace that ends with runc.
	const script = `mount -t overlay overlay -o "lowerdir=$1,upperdir=$2/upper,workdir=$2/work" "$2/root" && shift 2 && exec "$@"`
	one.process, err = n.options.Group.Start(process.Spec{
		Name: one.name,
		Path: "/usr/bin/unshare",
		Args: []string{
			"--mount", "--propagation=private", "sh", "-c", script, "sh", n.options.Root, one.dir,
			n.options.Runc, "--root=" + filepath.Join(n.options.Dir, "runc"), "run", "--bundle=" + one.dir, n.options.Cgroup + one.name,
		},
		Stdin: input,
	})
	if err != nil {
		return errors.Join(err, output.Close())
	}
	one.input = output
	return nil
}

// Stop ends all nodes, and returns when nothing of them is left.
func (n *Nodes) Stop(ctx context.Context) error {
	var failed error
	for _, one := range n.nodes {
		failed = errors.Join(failed, one.end())
	}
	for _, one := range n.nodes {
		failed = errors.Join(failed, one.stop(ctx))
	}
	return failed
}

// end kills the processes of a node.
func (n *node) end() error {
	if n.input == nil {
		return nil
	}
	err := n.input.Close()
	n.input = nil
	return err
}

// stop ends a node, and returns when nothing of it is left.
func (n *node) stop(ctx context.Context) error {
	failed := n.end()
	if n.process == nil {
		return failed
	}
	select {
	case <-n.process.Exited(): // runc removes the cgroups before
		return failed
	case <-ctx.Done():
		return errors.Join(failed, fmt.Errorf("node %s has not ended: %w", n.name, ctx.Err()), n.process.Stop(ctx))
	}
}

// writeFiles writes the configuration of a node, and makes its folders.
func (n *Nodes) writeFiles(one *node) error {
	for _, folder := range []string{"upper", "work", "root", "containerd", "kubelet", "lab/cni", "lab/networks", "lab/registries/" + Registry, "lab/images"} {
		if err := os.MkdirAll(filepath.Join(one.dir, folder), 0o755); err != nil {
			return fmt.Errorf("create folder: %w", err)
		}
	}
	for _, folder := range []string{one.log, n.Volumes()} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return fmt.Errorf("create folder: %w", err)
		}
	}
	contents := map[string][]byte{"kubelet": nil} // the program is mounted there
	if n.options.Proxy != "" {
		contents["kube-proxy"] = nil
	}
	targets := map[string]string{
		"init.sh": "init.sh", "containerd.toml": "containerd.toml", "kubelet.yaml": "kubelet.yaml", "kube-proxy.yaml": "kube-proxy.yaml",
		"cni.conflist": "cni/lab.conflist", "registry.toml": "registries/" + Registry + "/hosts.toml",
	}
	if n.options.Multus != "" {
		targets["multus.conf"] = "cni/multus.conf"
		targets["cni.conflist"] = "networks/lab.conflist" // Multus 4.2 loses the ranges of addresses in a file, but not in a folder.
	}
	for name, target := range targets {
		data, err := files.ReadFile("files/" + name)
		if err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
		contents[target] = []byte(strings.NewReplacer("POD_SUBNET", one.podSubnet(), "REGISTRY", Registry).Replace(string(data)))
	}
	for name, data := range contents {
		if err := os.WriteFile(filepath.Join(one.lab(), name), data, 0o600); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
	}
	return nil
}

// VolumesOnNodes is the folder of the volumes on the nodes.
const VolumesOnNodes = "/var/lib/volumes"

// Volumes returns the folder of the volumes, which all nodes share, on this machine.
func (n *Nodes) Volumes() string { return filepath.Join(n.options.Dir, "volumes") }

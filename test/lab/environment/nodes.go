// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/binaries"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/controlplane"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/node"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/node/guest"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/node/host"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/node/images"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/node/root"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/node/volumes"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/screen"
)

// CheckNodes returns an error that names what this machine lacks for real nodes, and its remedy.
func CheckNodes(ctx context.Context) error {
	if err := host.Check(); err != nil {
		return err
	}
	return root.Check(ctx)
}

// prepareNodes builds what real nodes run on a machine that CheckNodes has checked. Bare ones run only machines from container images.
func (p *prepared) prepareNodes(ctx context.Context, progress io.Writer, bare bool) (err error) {
	if p.root, err = root.Ensure(ctx, progress); err != nil {
		return err
	}
	labs, err := labsDir()
	if err != nil {
		return err
	}
	if err := node.CheckKernel(ctx, p.root, labs); err != nil { // before the programs are built, which takes longest
		return err
	}
	ensure := binaries.EnsureNodes
	if bare {
		ensure = binaries.EnsureBareNodes
	}
	if p.binaries, err = ensure(ctx, progress); err != nil {
		return err
	}
	kernel, err := root.EnsureKernel(ctx, progress)
	if err != nil {
		return err
	}
	p.images, err = images.Ensure(ctx, p.binaries, p.root, kernel, progress)
	return err
}

// EnsureGuestImage returns the disk image of workers that join, and first builds it and what it is built from if they are missing.
func EnsureGuestImage(ctx context.Context, progress io.Writer) (string, error) {
	if err := CheckNodes(ctx); err != nil {
		return "", err
	}
	var p prepared
	if err := p.prepareNodes(ctx, progress, false); err != nil {
		return "", err
	}
	return guest.Ensure(ctx, guest.Parts{Kubelet: p.binaries.Kubelet, Root: p.root, Images: p.images}, progress)
}

// bootNodes makes the network of the nodes, in which the control planes listen, and starts the nodes, which import their
// images while the control planes start.
func (l *Lab) bootNodes(ctx context.Context, o Options, found prepared) (err error) {
	if o.RealNodes == 0 {
		return nil
	}
	l.Nodes, err = node.New(ctx, node.Options{
		Dir:     filepath.Join(l.folder.data(), "nodes"),
		LogDir:  l.LogDir,
		Group:   l.group,
		Root:    found.root,
		Images:  found.images,
		Runc:    found.binaries.Runc,
		Kubelet: found.binaries.Kubelet,
		Proxy:   found.binaries.KubeProxy,
		Multus:  found.binaries.Multus,
		Cgroup:  l.folder.cgroup(),
		Count:   o.RealNodes,
	})
	if err != nil {
		return err
	}
	return l.Nodes.Start()
}

// realNodes returns how the provider cluster and its nodes reach each other, or nil if the nodes are simulated.
func (l *Lab) realNodes(o Options) *controlplane.Nodes {
	if l.Nodes == nil {
		return nil
	}
	return &controlplane.Nodes{
		Server:      node.Gateway,
		Names:       node.Names(o.RealNodes),
		Emulation:   !node.HasKVM(),
		VirtHandler: l.Binaries.VirtHandlerManifest(),
		Multus:      l.Binaries.MultusManifest(),
	}
}

// kubelets returns how the control cluster and the kubelets of guests on real nodes reach each other, or nil.
func (l *Lab) kubelets() *controlplane.Kubelets {
	if l.Nodes == nil {
		return nil
	}
	return &controlplane.Kubelets{Server: node.Gateway}
}

// joinArgs gives bootstrap tokens the permissions that real kubelets need, as the shipped Deployment does.
func (l *Lab) joinArgs() []string {
	if l.kubelets() == nil {
		return nil
	}
	return []string{"--bootstrap-token-auth-extra-groups=" + controlplane.Bootstrappers}
}

// joinNodes lets the nodes join, starts virt-handler, and returns when they are ready.
func (l *Lab) joinNodes(ctx context.Context, o Options) error {
	defer screen.Report(o.Progress, func(elapsed time.Duration) string {
		return fmt.Sprintf("wait for %d real nodes and their virt-handlers: %s", o.RealNodes, screen.Clock(elapsed))
	})()
	proxy, err := l.Provider.ProxyKubeconfig()
	if err != nil {
		return err
	}
	var multus []byte
	if l.Binaries.Multus != "" {
		if multus, err = l.Provider.InstallMultus(ctx); err != nil {
			return err
		}
	}
	err = l.Nodes.Join(node.Credentials{CA: l.Provider.CA(), Kubeconfig: l.Provider.KubeletKubeconfig, Proxy: proxy, Multus: multus})
	if err != nil {
		return err
	}
	if l.Binaries.CoreDNS != "" {
		if err := l.Provider.StartDNS(ctx); err != nil {
			return err
		}
	}
	if err := l.Provider.StartVirtHandler(ctx); err != nil {
		return err
	}
	if err := l.startVolumes(ctx); err != nil {
		return err
	}
	return l.awaitNodes(ctx, o.RealNodes)
}

// startVolumes runs the storage driver until the lab stops.
func (l *Lab) startVolumes(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(l.Provider.Config())
	if err != nil {
		return fmt.Errorf("connect to the provider cluster: %w", err)
	}
	log, err := os.Create(filepath.Join(l.LogDir, "volumes.log"))
	if err != nil {
		return fmt.Errorf("create log of the storage driver: %w", err)
	}
	driver := &volumes.Driver{
		Client:      client,
		Provisioner: controlplane.SharedProvisioner,
		Folder:      l.Nodes.Volumes(),
		NodeFolder:  node.VolumesOnNodes,
		Zone:        node.Zone,
		Log:         slog.New(slog.NewTextHandler(log, nil)),
	}
	lifetime, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		driver.Run(lifetime)
		close(ended)
	}()
	l.stopVolumes = func() error {
		cancel()
		<-ended
		return log.Close()
	}
	return nil
}

const (
	pollNodesEvery = 500 * time.Millisecond
	nodesTimeout   = 20 * time.Minute // two emulated nodes import half a gigabyte each
)

// awaitNodes waits until the nodes and their virt-handlers are ready.
func (l *Lab) awaitNodes(ctx context.Context, count int) error {
	client, err := kubernetes.NewForConfig(l.Provider.Config())
	if err != nil {
		return fmt.Errorf("connect to the provider cluster: %w", err)
	}
	ready := 0
	err = wait.PollUntilContextTimeout(ctx, pollNodesEvery, nodesTimeout, true, func(ctx context.Context) (bool, error) {
		if err := l.Health(); err != nil {
			return false, err
		}
		nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		ready = 0
		for i := range nodes.Items {
			if isReady(&nodes.Items[i]) {
				ready++
			}
		}
		handlers, err := client.AppsV1().DaemonSets("kubevirt").Get(ctx, "virt-handler", metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		return ready == count && int(handlers.Status.NumberReady) == count, nil
	})
	if err != nil {
		return fmt.Errorf("wait for the nodes, of which %d are ready, and for virt-handler: %w", ready, err)
	}
	return nil
}

func isReady(n *corev1.Node) bool {
	for _, condition := range n.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

func (l *Lab) stopNodes(ctx context.Context) error {
	if l.Nodes == nil {
		return nil
	}
	var failed error
	for _, stop := range []*func() error{&l.stopVolumes, &l.stopRegistry} {
		if *stop != nil {
			failed = errors.Join(failed, (*stop)())
			*stop = nil
		}
	}
	return errors.Join(failed, l.Nodes.Stop(ctx))
}

// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package environment is the lab: two real control planes and a simulated data plane,
// started and stopped together.
//
// The tests, the demo and the lab command use it. It combines the packages binaries, process,
// controlplane and dataplane, and adds shoots: the namespaces, identities and controllers needed
// for one shoot's machines. It treats the driver only as a binary to run and an identity with
// permissions, and imports none of its code.
package environment

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/binaries"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/controlplane"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/kubelet"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/node"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/process"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/screen"
)

// Options configures a lab. The zero value is valid.
type Options struct {
	Dir      string         // for data and logs; default: FreshDir()
	Progress io.Writer      // receives human-readable lines; nil: silent
	Nodes    []kubelet.Node // of the provider cluster; nil: kubelet.DefaultNodes()
	KeepLogs bool           // keep the logs when the lab stops
	// SeparateTarget starts a cluster for the Nodes, instead of the control cluster.
	SeparateTarget bool
	// SpendMemory lets the components use more memory, each API server a gigabyte, to save CPU time.
	SpendMemory bool
	// Gardener builds Gardener's components too.
	Gardener bool
	// Monitoring builds the program that validates alerts and dashboards, too.
	Monitoring bool
	// RealNodes is the number of real provider nodes. If it is not zero, nothing is simulated, and the process
	// must have called node.Isolate.
	RealNodes int
	// BareNodes builds less for real nodes: without imports, clones, Services and Multus, unless those were built before.
	BareNodes bool
}

// inotify returns the instances of inotify that a lab has before its first guest, and a few more. Running ones had 28, with a target cluster and
// Gardener's programs 38, and 16 for each real node.
func (o Options) inotify() int {
	const controlPlanes, ofTarget, ofNode = 30, 10, 17

	count := controlPlanes + o.RealNodes*ofNode
	if o.SeparateTarget {
		count += ofTarget
	}

	return count
}

// Lab is a running lab.
type Lab struct {
	Dir      string // contains all files of the lab
	LogDir   string // one file per process
	Provider *controlplane.Cluster
	Control  *controlplane.Cluster // holds the Machines
	Target   *controlplane.Cluster // holds the Nodes; equals Control unless Options.SeparateTarget is set
	Binaries *binaries.Binaries
	KeepLogs bool // may be set until Stop is called
	// SidecarArgs are passed to every sidecar and every driver over gRPC, before
	// their own extra arguments.
	SidecarArgs []string

	// Nodes are the real nodes; nil unless Options.RealNodes is set.
	Nodes *node.Nodes

	folder    *folder
	manifests *manifests
	group     *process.Group
	simulator *simulator
	// stopVolumes ends the storage driver of real nodes; nil if there is none.
	stopVolumes func() error
	// stopRegistry ends the registry of real nodes; nil if there is none.
	stopRegistry func() error
	shared       *http.Server // for the processes that attach; nil if the lab is not shared
	owner        *owner       // nil in the process that owns the lab
}

// The provider cluster detects a lost node earlier than by default, to keep tests
// short. The grace period is four heartbeats of the simulated kubelets, since
// heartbeats may be late on a busy machine.
const (
	nodeMonitorGrace = 40 * time.Second
	toleration       = 30 * time.Second
)

// Start starts both clusters and the simulated data plane, and returns when all components are
// healthy. ctx bounds only the start; a lab ends with Stop or with its process. If Start fails, it
// leaves only the logs, which the error names; if ctx is done, it leaves nothing.
func Start(ctx context.Context, o Options) (*Lab, error) {
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	found, err := prepare(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("prepare the lab's binaries: %w", err)
	}
	begin := time.Now()
	f, err := newFolder(o.Dir, o.RealNodes > 0)
	if err != nil {
		return nil, err
	}
	l := &Lab{
		Dir:      f.path,
		LogDir:   f.logs(),
		Binaries: found.binaries,
		KeepLogs: o.KeepLogs,
		folder:   f,
		group:    process.NewGroup(f.logs()),
	}
	if err := l.start(ctx, o, found); err != nil {
		err = fmt.Errorf("start the lab: %w", err)
		if l.KeepLogs = ctx.Err() == nil; l.KeepLogs { // the logs would not explain an interrupted start
			err = fmt.Errorf("%w (logs in %s)", err, l.LogDir)
		}
		return nil, errors.Join(err, l.Stop(context.WithoutCancel(ctx)))
	}
	fmt.Fprintf(o.Progress, "the lab is up after %.1f s\n", time.Since(begin).Seconds())
	return l, nil
}

// Prepare builds what a lab with these options runs, and starts nothing.
func Prepare(ctx context.Context, o Options) error {
	_, err := prepare(ctx, o)
	return err
}

// prepared is what the lab runs.
type prepared struct {
	binaries *binaries.Binaries
	root     string // the root folder of real nodes
	images   string // the folder with the container images of real nodes
}

// prepare builds what the lab runs, after all checks that need no program.
func prepare(ctx context.Context, o Options) (found prepared, err error) {
	if o.RealNodes > 0 {
		if err := binaries.CheckNodes(); err != nil {
			return found, err
		}
		if err := CheckNodes(ctx); err != nil {
			return found, err
		}
	}
	if err := process.CheckInotify(o.inotify()); err != nil {
		return found, err
	}
	switch {
	case o.Gardener:
		found.binaries, err = binaries.EnsureGardener(ctx, o.Progress)
	case o.RealNodes == 0:
		found.binaries, err = binaries.Ensure(ctx, o.Progress)
	}
	if err == nil && o.RealNodes > 0 {
		err = found.prepareNodes(ctx, o.Progress, o.BareNodes)
	}
	if err == nil && o.Monitoring {
		found.binaries.PromQL, err = binaries.EnsurePromQL(ctx, o.Progress)
	}
	return found, err
}

func (l *Lab) start(ctx context.Context, o Options, found prepared) (err error) {
	if err := l.bootNodes(ctx, o, found); err != nil {
		return err
	}
	if l.manifests, err = newManifests(filepath.Join(l.folder.data(), "manifests"), l.Binaries.Kubectl); err != nil {
		return err
	}
	if err := l.startControlPlanes(ctx, o); err != nil {
		return fmt.Errorf("start control planes: %w", err)
	}
	if l.Nodes != nil {
		return l.joinNodes(ctx, o)
	}
	l.simulator, err = l.startSimulator(ctx, o)
	return err
}

// startControlPlanes starts those of all clusters.
func (l *Lab) startControlPlanes(ctx context.Context, o Options) error {
	defer screen.Report(o.Progress, func(elapsed time.Duration) string {
		what := "start the control planes of the provider cluster with KubeVirt %s and CDI %s and of the control cluster: Kubernetes %s, %s"
		if l.Nodes != nil {
			what = "import the images of the nodes, and " + what
		}
		return fmt.Sprintf(what, l.Binaries.KubeVirtVersion, l.Binaries.CDIVersion, l.Binaries.KubernetesVersion, screen.Clock(elapsed))
	})()
	options := func(name string) controlplane.Options {
		return controlplane.Options{
			Dir:         filepath.Join(l.folder.data(), name),
			Group:       l.group,
			Binaries:    l.Binaries,
			SpendMemory: o.SpendMemory,
		}
	}
	err := controlplane.Together(ctx, func(ctx context.Context) (err error) {
		if o.SeparateTarget {
			own := options("target")
			own.Kubelets = l.kubelets()
			l.Target, err = controlplane.StartTarget(ctx, own)
		}
		return err
	}, func(ctx context.Context) (err error) {
		own := options("provider")
		own.NodeMonitorGrace = nodeMonitorGrace
		own.Toleration = toleration
		own.Nodes = l.realNodes(o)
		if l.Provider, err = controlplane.StartProvider(ctx, own); err != nil {
			return err
		}
		return l.applyShipped(ctx, l.Provider, providerClusterOverlay)
	}, func(ctx context.Context) (err error) {
		own := options("control")
		if !o.SeparateTarget {
			own.Kubelets = l.kubelets()
		}
		l.Control, err = controlplane.StartControl(ctx, own)
		return err
	})
	if l.Target == nil {
		l.Target = l.Control
	}
	return err
}

// Stop ends every process and removes the data, and also the logs unless KeepLogs is set. It may
// be called more than once. An attached process ends only the processes that it started.
func (l *Lab) Stop(ctx context.Context) error {
	if l.owner != nil {
		return errors.Join(l.group.Stop(ctx), l.owner.leave())
	}
	if l.shared != nil {
		_ = l.shared.Close() // tells the attached processes
	}
	if l.simulator != nil {
		l.simulator.stop()
	}
	failed := errors.Join(l.stopNodes(ctx), l.group.Stop(ctx))
	return errors.Join(failed, l.folder.remove(l.KeepLogs))
}

// AddNode adds a host to the provider cluster, for a test that needs its own hosts.
func (l *Lab) AddNode(ctx context.Context, host kubelet.Node) error {
	if l.owner != nil {
		return l.owner.addNode(ctx, host)
	}
	if l.simulator == nil {
		return errors.New("real nodes cannot be added to a lab that runs")
	}
	return l.simulator.plane.AddNode(ctx, host)
}

// Processes returns all processes that this process has started so far, oldest first.
func (l *Lab) Processes() []*process.Process { return l.group.Processes() }

// Health returns nil, or an error for each of the lab's processes that exited by itself.
func (l *Lab) Health() error {
	var failed error
	for _, p := range l.Processes() {
		failed = errors.Join(failed, p.Err())
	}
	return failed
}

// simulator is the data plane with the means to stop it.
type simulator struct {
	plane  *dataplane.DataPlane
	cancel context.CancelFunc
	log    *os.File
}

func (l *Lab) startSimulator(ctx context.Context, o Options) (*simulator, error) {
	log, err := os.Create(filepath.Join(l.LogDir, "dataplane.log"))
	if err != nil {
		return nil, fmt.Errorf("create log of the data plane: %w", err)
	}
	nodes := o.Nodes
	if nodes == nil {
		nodes = kubelet.DefaultNodes()
	}
	lifetime, cancel := context.WithCancel(context.WithoutCancel(ctx))
	// A cancelled start must not hang in the data plane.
	release := context.AfterFunc(ctx, cancel)
	plane, err := dataplane.Start(lifetime, dataplane.Config{
		Provider:       l.Provider.Config(),
		VirtHandler:    l.Provider.VirtHandlerConfig(),
		Target:         l.Target.Config(),
		Nodes:          nodes,
		KubeletVersion: string(l.Binaries.KubernetesVersion),
		Log:            log,
	})
	if err == nil && !release() {
		err = ctx.Err()
	}
	if err != nil {
		cancel()
		return nil, errors.Join(fmt.Errorf("start the data plane: %w", err), log.Close())
	}
	return &simulator{plane: plane, cancel: cancel, log: log}, nil
}

func (s *simulator) stop() {
	s.cancel()
	s.plane.Wait()
	_ = s.log.Close() // harmless if Stop is called twice
}

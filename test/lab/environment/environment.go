// Package environment is the lab: two real control planes and a simulated data plane, started and stopped together.
//
// The tests, the demo and the lab command use it. It joins the packages binaries, process, controlplane and dataplane, and
// adds shoots: the namespaces, identities and controllers that one shoot's machines need. It knows the driver only as a binary
// to run and as an identity with rights; it imports none of the driver's code.
package environment

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/binaries"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/controlplane"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/process"
)

// Options says how to start a lab. The zero value is fine.
type Options struct {
	Dir      string           // for data and logs; empty: FreshDir()
	Progress io.Writer        // takes lines for a person; nil: silent
	Nodes    []dataplane.Node // of the provider cluster; nil: dataplane.DefaultNodes()
	KeepLogs bool             // leave the logs behind when the lab stops
}

// Lab is a running lab.
type Lab struct {
	Dir      string // of everything on disk
	LogDir   string // one file per process
	Provider *controlplane.Cluster
	Control  *controlplane.Cluster // holds the Machines, and plays the target cluster, which holds the Nodes
	Binaries *binaries.Binaries
	KeepLogs bool // may be set until Stop
	// SidecarArgs are added to the arguments of every sidecar and every driver over gRPC, before those of its own.
	SidecarArgs []string

	folder    *folder
	manifests *manifests
	group     *process.Group
	simulator *simulator
}

// On the provider cluster a lost node is noticed earlier than by default, to keep tests short. The grace is four heartbeats of the simulated
// kubelets: on a busy machine a heartbeat may be late.
const (
	nodeMonitorGrace = 40 * time.Second
	toleration       = 30 * time.Second
)

// Start brings up both clusters and the simulated data plane, and returns when all is healthy. ctx bounds the start only; a
// lab ends with Stop, or with the process that owns it. When Start fails nothing is left but the logs, which the error names;
// when ctx ends, nothing at all.
func Start(ctx context.Context, o Options) (*Lab, error) {
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	found, err := binaries.Ensure(ctx, o.Progress)
	if err != nil {
		return nil, fmt.Errorf("prepare the lab's binaries: %w", err)
	}
	begin := time.Now()
	fmt.Fprintln(o.Progress, "starting the control planes of the provider and control clusters")
	f, err := newFolder(o.Dir)
	if err != nil {
		return nil, err
	}
	l := &Lab{
		Dir: f.path, LogDir: f.logs(), Binaries: found, KeepLogs: o.KeepLogs,
		folder: f, group: process.NewGroup(f.logs()),
	}
	if err := l.start(ctx, o); err != nil {
		err = fmt.Errorf("start the lab: %w", err)
		if l.KeepLogs = ctx.Err() == nil; l.KeepLogs { // the logs of an interrupted start explain nothing
			err = fmt.Errorf("%w (logs in %s)", err, l.LogDir)
		}
		return nil, errors.Join(err, l.Stop(context.WithoutCancel(ctx)))
	}
	fmt.Fprintf(o.Progress, "the lab is up after %.1f s\n", time.Since(begin).Seconds())
	return l, nil
}

func (l *Lab) start(ctx context.Context, o Options) (err error) {
	if l.manifests, err = newManifests(filepath.Join(l.folder.data(), "manifests"), l.Binaries.Kubectl); err != nil {
		return err
	}
	options := func(name string) controlplane.Options {
		return controlplane.Options{Dir: filepath.Join(l.folder.data(), name), Group: l.group, Binaries: l.Binaries}
	}
	err = controlplane.Together(ctx, func(ctx context.Context) (err error) {
		own := options("provider")
		own.NodeMonitorGrace, own.Toleration = nodeMonitorGrace, toleration
		if l.Provider, err = controlplane.StartProvider(ctx, own); err != nil {
			return err
		}
		return l.applyShipped(ctx, l.Provider, providerClusterOverlay)
	}, func(ctx context.Context) (err error) {
		l.Control, err = controlplane.StartControl(ctx, options("control"))
		return err
	})
	if err != nil {
		return fmt.Errorf("start control planes: %w", err)
	}
	l.simulator, err = l.startSimulator(ctx, o)
	return err
}

// Stop ends every process and removes the data, and the logs unless KeepLogs is set. It may be called more than once.
func (l *Lab) Stop(ctx context.Context) error {
	if l.simulator != nil {
		l.simulator.stop()
	}
	failed := l.group.Stop(ctx)
	return errors.Join(failed, l.folder.remove(l.KeepLogs))
}

// AddNode adds a host to the provider cluster, for a test that needs hosts of its own.
func (l *Lab) AddNode(ctx context.Context, node dataplane.Node) error {
	return l.simulator.plane.AddNode(ctx, node)
}

// Processes returns all processes that were started, oldest first.
func (l *Lab) Processes() []*process.Process { return l.group.Processes() }

// Health returns nil, or which of the lab's processes ended by itself and why.
func (l *Lab) Health() error {
	var failed error
	for _, p := range l.Processes() {
		failed = errors.Join(failed, p.Err())
	}
	return failed
}

// simulator is the data plane and what ends it.
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
		nodes = dataplane.DefaultNodes()
	}
	lifetime, cancel := context.WithCancel(context.WithoutCancel(ctx))
	// A start that is given up must not hang in the data plane.
	release := context.AfterFunc(ctx, cancel)
	plane, err := dataplane.Start(lifetime, dataplane.Config{
		Provider: l.Provider.Config(), VirtHandler: l.Provider.VirtHandlerConfig(), Target: l.Control.Config(),
		Nodes: nodes, Log: log,
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
	_ = s.log.Close() // a second Stop closes it again
}

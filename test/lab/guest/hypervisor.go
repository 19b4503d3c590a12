// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/hypervisor"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/process"
)

// ServerAddress is the address at which guests reach services that listen on the loopback interface of
// the host, such as an API server.
const ServerAddress = "10.0.2.2"

// Options configures a Hypervisor.
type Options struct {
	Dir      string         // for disks, Secrets and sockets; created
	LogDir   string         // for a log of events, and the guests' consoles
	Group    *process.Group // owns the processes
	Image    string         // of EnsureImage
	Launcher string         // the program that writes a guest's domain and cloud-init disk
	Importer string         // the program that imports disk images
}

// Hypervisor runs guests. It implements hypervisor.Hypervisor.
type Hypervisor struct {
	options Options
	log     *slog.Logger
	logFile *os.File
	short   string // a link to Options.Dir: the paths of sockets must be short
	proxy   *proxy
	ctx     context.Context //nolint:containedctx // the lifetime of the guests, which outlives every call
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu      sync.Mutex
	guests  map[types.UID]*guest
	byName  map[string]*guest // the latest of each host name
	imports map[string]*importer
}

var _ hypervisor.Hypervisor = (*Hypervisor)(nil)

// New returns a Hypervisor without guests, whose proxy to kubelets listens. Callers must call Stop.
func New(ctx context.Context, o Options) (_ *Hypervisor, err error) {
	if err := os.MkdirAll(filepath.Join(o.Dir, "volumes"), 0o700); err != nil {
		return nil, fmt.Errorf("create folder of the guests: %w", err)
	}
	h := &Hypervisor{options: o, guests: map[types.UID]*guest{}, byName: map[string]*guest{}, imports: map[string]*importer{}}
	if h.logFile, err = os.Create(filepath.Join(o.LogDir, "guests.log")); err != nil {
		return nil, fmt.Errorf("create log of the guests: %w", err)
	}
	h.log = slog.New(slog.NewTextHandler(h.logFile, nil))
	if h.short, err = shortLink(o.Dir); err != nil {
		return nil, errors.Join(err, h.logFile.Close())
	}
	h.ctx, h.cancel = context.WithCancel(context.WithoutCancel(ctx))
	h.proxy, err = startProxy(ctx, h.ProxySocket(), h.kubeletOf)
	if err != nil {
		return nil, errors.Join(err, os.Remove(h.short), h.logFile.Close())
	}
	return h, nil
}

// shortLink returns a link to a folder whose path is short and that only this user can read.
func shortLink(dir string) (string, error) {
	parent, err := os.MkdirTemp("", "g")
	if err != nil {
		return "", fmt.Errorf("create link to the guests: %w", err)
	}
	if err := os.Remove(parent); err != nil { // only its name was needed
		return "", fmt.Errorf("create link to the guests: %w", err)
	}
	return parent, os.Symlink(dir, parent)
}

// ProxySocket returns the Unix socket of the proxy to the guests' kubelets.
func (h *Hypervisor) ProxySocket() string { return filepath.Join(h.short, "proxy") }

// Stop kills all guests and removes what is outside of Options.Dir.
func (h *Hypervisor) Stop(ctx context.Context) error {
	h.cancel()
	var failed error
	for _, g := range h.all() {
		failed = errors.Join(failed, g.kill(ctx))
	}
	h.running.Wait()
	h.proxy.close()
	if err := os.Remove(h.short); err != nil && !errors.Is(err, os.ErrNotExist) {
		failed = errors.Join(failed, err)
	}
	_ = h.logFile.Close() // harmless if Stop is called twice
	return failed
}

func (h *Hypervisor) all() []*guest {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []*guest
	for _, g := range h.guests {
		all = append(all, g)
	}
	return all
}

func (h *Hypervisor) guest(uid types.UID) *guest {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.guests[uid]
}

// Start implements hypervisor.Hypervisor.
func (h *Hypervisor) Start(boot hypervisor.Boot) error {
	uid := boot.Instance.UID
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.guests[uid] != nil {
		return nil
	}
	g := newGuest(h, boot, len(h.guests)+1)
	h.guests[uid] = g
	h.byName[g.name] = g
	h.running.Go(func() { g.run(h.ctx) })
	return nil
}

// Observe implements hypervisor.Hypervisor.
func (h *Hypervisor) Observe(instance types.UID) hypervisor.GuestState {
	g := h.guest(instance)
	if g == nil {
		return hypervisor.GuestState{}
	}
	return g.observe()
}

// PowerOff implements hypervisor.Hypervisor.
func (h *Hypervisor) PowerOff(instance types.UID) error {
	if g := h.guest(instance); g != nil {
		return g.powerOff()
	}
	return nil
}

// Kill implements hypervisor.Hypervisor.
func (h *Hypervisor) Kill(ctx context.Context, instance types.UID) error {
	if g := h.guest(instance); g != nil {
		return g.kill(ctx)
	}
	return nil
}

// Info describes a guest for tests and the demo.
type Info struct {
	SSH     string // address of its SSH server on the host
	Console string // file with the output on its serial port
	PID     int    // of the process that contains QEMU
}

// Find returns the latest guest with a host name.
func (h *Hypervisor) Find(name string) (Info, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	g := h.byName[name]
	if g == nil {
		return Info{}, false
	}
	return g.info(), true
}

// CPUTime returns the processor time of all guests until now.
func (h *Hypervisor) CPUTime() time.Duration {
	var total time.Duration
	for _, g := range h.all() {
		total += g.cpuTime()
	}
	return total
}

// kubeletOf returns the address of a guest's kubelet on the host.
func (h *Hypervisor) kubeletOf(name string) (string, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	g := h.byName[name]
	if g == nil {
		return "", false
	}
	return g.forwarded(kubeletPort), true
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", fmt.Sprint(port)) }

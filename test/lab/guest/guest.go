// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/hypervisor"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/process"
)

const (
	sshPort     = 22
	kubeletPort = 10250
	// startTimeout bounds the start of QEMU, which is not the boot of the guest.
	startTimeout = 5 * time.Minute
	pollEvery    = 200 * time.Millisecond
	// pressEvery is how often the power button is pressed, since a guest ignores it until its operating
	// system runs.
	pressEvery = 5 * time.Second
)

// guest is one run of a VirtualMachineInstance.
type guest struct {
	hypervisor *Hypervisor
	boot       hypervisor.Boot
	name       string // the host name, and hence the name of the Node
	dir        string // with a short path
	console    string

	mu      sync.Mutex
	state   hypervisor.GuestState
	killed  bool
	off     bool // the guest has powered itself off
	pressed time.Time
	process *process.Process
	monitor *monitor
	ports   map[int]int   // on the host, by the guest's
	used    time.Duration // processor time; QEMU's own end hides it
}

func newGuest(h *Hypervisor, boot hypervisor.Boot, number int) *guest {
	name := boot.Instance.Spec.Hostname
	if name == "" {
		name = boot.Instance.Name
	}
	return &guest{
		hypervisor: h,
		boot:       boot,
		name:       name,
		dir:        filepath.Join(h.short, fmt.Sprint(number)),
		console:    filepath.Join(h.options.LogDir, fmt.Sprintf("console-%s-%d.log", name, number)),
		state:      hypervisor.GuestState{Started: true},
	}
}

// run boots the guest and returns when it has ended.
func (g *guest) run(ctx context.Context) {
	log := g.hypervisor.log.With("guest", g.name)
	err := g.live(ctx)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.state.Running = false
	g.state.Agent = nil
	switch {
	case g.killed || ctx.Err() != nil:
		g.state.End = hypervisor.GuestKilled
		log.Info("killed")
	case g.off:
		g.state.End = hypervisor.GuestShutDown
		log.Info("powered off")
	default:
		g.state.End = hypervisor.GuestFailed
		log.Error("failed", "error", err)
	}
}

// live runs the guest until it ends. The error tells why, unless it has powered itself off.
func (g *guest) live(ctx context.Context) error {
	if err := g.prepare(ctx); err != nil {
		return err
	}
	p, err := g.hypervisor.options.Group.Start(g.spec())
	if err != nil {
		return err
	}
	defer p.Stop(context.WithoutCancel(ctx)) //nolint:errcheck // libvirt does not always end with its guest; the group reports what is left
	m, err := g.connect(ctx, p)
	if err != nil {
		return err
	}
	defer m.close()
	if err := g.forward(ctx, m); err != nil {
		return err
	}
	g.mu.Lock()
	g.process = p
	g.monitor = m
	g.state.Running = true
	g.mu.Unlock()
	g.hypervisor.log.Info("runs", "guest", g.name, "console", g.console, "ssh", g.info().SSH)
	go g.watchAgent(ctx, m.closed)
	select {
	case <-m.closed:
		return errClosed
	case <-p.Exited():
		return p.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// spec returns the process of a guest: libvirt's driver for QEMU without its daemon. In its own
// namespaces it is an ordinary user, which it needs to be, and everything that it has started ends with
// it. The control planes take precedence over the guests.
func (g *guest) spec() process.Spec {
	libvirt := filepath.Join(g.dir, libvirtFolder)
	return process.Spec{
		Name: "guest-" + g.name,
		Path: "nice",
		Args: append([]string{"-n", "10", "unshare", "--user", "--map-user=65534", "--map-group=65534"},
			contained("virt-qemu-run", "--root="+libvirt, filepath.Join(g.dir, domainFile))...),
		Env:  []string{"HOME=" + libvirt, "XDG_RUNTIME_DIR=" + libvirt, "XDG_CACHE_HOME=" + libvirt, "XDG_CONFIG_HOME=" + libvirt},
		Kill: true,
	}
}

// connect waits for QEMU's control socket.
func (g *guest) connect(ctx context.Context, p *process.Process) (m *monitor, err error) {
	polled := wait.PollUntilContextTimeout(ctx, pollEvery, startTimeout, true, func(ctx context.Context) (bool, error) {
		if ended := p.Err(); ended != nil {
			return false, ended
		}
		m, err = connectMonitor(ctx, filepath.Join(g.dir, monitorSocket), g.onEvent)
		return err == nil, nil
	})
	if polled != nil {
		return nil, fmt.Errorf("wait for QEMU: %w", errors.Join(polled, err))
	}
	return m, nil
}

// onEvent ends QEMU when the guest has powered itself off, since libvirt keeps it paused until it has
// noticed.
func (g *guest) onEvent(event message) {
	if event.Event != "SHUTDOWN" || !event.Data.Guest {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.off = true
	if m := g.monitor; m != nil {
		go g.quit(m)
	}
}

func (g *guest) quit(m *monitor) {
	g.cpuTime()
	_, _ = m.execute("quit", nil) // QEMU may have ended before
}

// cpuTime returns the processor time of the guest. It is called regularly, since libvirt may end QEMU,
// which hides it, before anything else notices the guest's end.
func (g *guest) cpuTime() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.state.Running {
		if now, err := CPUTime(g.process.PID()); err == nil {
			g.used = max(g.used, now)
		}
	}
	return g.used
}

// forward makes the guest's servers reachable on the host.
func (g *guest) forward(ctx context.Context, m *monitor) error {
	const wanted = 2
	free, err := process.FreePorts(ctx, wanted)
	if err != nil {
		return err
	}
	ports := map[int]int{sshPort: free[0], kubeletPort: free[1]}
	for to, from := range ports {
		if err := m.forward(primaryNetwork, from, to); err != nil {
			return err
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ports = ports
	return nil
}

// primaryNetwork is QEMU's name for the network of the first interface: libvirt's prefix and KubeVirt's
// alias of the interface "default".
const primaryNetwork = "hostua-default"

// watchAgent keeps the answers of the guest agent, and the processor time, up to date until the guest has
// ended.
func (g *guest) watchAgent(ctx context.Context, ended <-chan struct{}) {
	ticker := time.NewTicker(agentPeriod)
	defer ticker.Stop()
	for {
		select {
		case <-ended:
			return
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		g.cpuTime()
		found, err := askAgent(ctx, filepath.Join(g.dir, agentSocket))
		if err != nil { // the guest is booting, shutting down, or busy
			continue
		}
		g.mu.Lock()
		g.state.Agent = found
		g.mu.Unlock()
	}
}

func (g *guest) observe() hypervisor.GuestState {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.state
}

func (g *guest) powerOff() error {
	m := g.nextPress()
	if m == nil {
		return nil
	}
	// Without the lock, which onEvent needs before the reply can be read.
	if err := m.pressPowerButton(); err != nil && !errors.Is(err, errClosed) {
		return fmt.Errorf("power off %s: %w", g.name, err)
	}
	return nil
}

// nextPress returns the monitor of a guest whose power button is to be pressed now.
func (g *guest) nextPress() *monitor {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.monitor == nil || g.off || time.Since(g.pressed) < pressEvery {
		return nil
	}
	g.pressed = time.Now()
	return g.monitor
}

func (g *guest) kill(ctx context.Context) error {
	g.mu.Lock()
	p := g.process
	g.killed = g.state.End == hypervisor.GuestNotEnded && !g.off
	g.mu.Unlock()
	if p == nil {
		return nil // it ends as soon as it has started, or with the hypervisor
	}
	g.cpuTime()
	return p.Stop(ctx)
}

// forwarded returns the address on the host of a port of the guest.
func (g *guest) forwarded(port int) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return loopback(g.ports[port])
}

func (g *guest) info() Info {
	i := Info{SSH: g.forwarded(sshPort), Console: g.console}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.process != nil {
		i.PID = g.process.PID()
	}
	return i
}

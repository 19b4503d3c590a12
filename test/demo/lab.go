// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/screen"
)

const (
	labName     = "demo"
	labProgram  = "bin/lab-manager"
	sidecar     = "bin/machine-controller"
	driver      = "bin/mcm-kubevirt"
	stopTimeout = 90 * time.Second // longer than the lab's own timeout
)

// lab is the output of `lab status -o json` for the running lab, and its
// process if the demo owns it.
type lab struct {
	PID                int    `json:"pid"`
	ParentPID          int    `json:"parentPID"`
	Ready              bool   `json:"ready"`
	ProviderKubeconfig string `json:"providerKubeconfig"`
	ControlKubeconfig  string `json:"controlKubeconfig"`
	Kubectl            string `json:"kubectl"`
	LogDir             string `json:"logDir"`
	GuestDisk          string `json:"guestDisk"`     // only with real nodes
	GuestUserData      string `json:"guestUserData"` // as above
	Shell              string `json:"shell"`
	Shoot              struct {
		Namespace          string `json:"namespace"`
		ProviderNamespace  string `json:"providerNamespace"`
		ProviderKubeconfig string `json:"providerKubeconfig"`
	} `json:"shoot"`
	Processes []struct {
		Name    string `json:"name"`
		Running bool   `json:"running"`
		Log     string `json:"log"`
	} `json:"processes"`

	child *child
}

func (d *demo) startLab(ctx context.Context) error {
	if err := d.build(ctx, "the lab", labProgram, "./test/lab/manager"); err != nil {
		return err
	}
	running, err := d.labStatus(ctx)
	if err != nil {
		return err
	}
	if running != nil {
		return fmt.Errorf("a lab named %s is already running (pid %d). Stop it first: make demo-stop", labName, running.PID)
	}
	args := []string{"run", "--keep-logs"} // in the foreground: it ends with the demo, which removes the logs on success
	if d.keep {
		args = []string{"up"}
	}
	args = append(args, "--name", labName, "--shoot", labName, "--sidecar", sidecar)
	if d.realNodes {
		args = append(args, "--nodes=real", "--guest-image")
	}
	const driverArgs = "--unschedulable-grace=5s" // instead of 30 s, to keep the demo short
	if d.overGRPC {
		d.out.Line("The driver runs in a separate process. The sidecar connects to it over gRPC, through a socket.")
		args = append(args, "--driver", driver, "--driver-args="+driverArgs)
	} else {
		args = append(args, "--sidecar-args="+driverArgs)
	}
	d.out.Line("$ %s %s", labProgram, strings.Join(args, " "))
	output := &screen.Lines{Screen: d.out, Last: isReady}
	c, err := startChild(d.root, output, labProgram, args...)
	if err != nil {
		return err
	}
	d.lab, err = d.awaitLab(ctx, c)
	if err != nil {
		return errors.Join(err, d.abandonLab(ctx, c))
	}
	output.Hush()
	d.describeLab()
	return nil
}

// isReady recognizes the line after which the lab describes itself to users who run it alone.
func isReady(line string) bool {
	return strings.HasPrefix(line, "lab ") && strings.Contains(line, " is ready ")
}

// awaitLab returns when the lab is ready. The lab's own timeouts bound its start.
func (d *demo) awaitLab(ctx context.Context, c *child) (found *lab, err error) {
	err = poll(ctx, func() (bool, error) {
		ended := c.ended()
		if ended && (c.err != nil || !d.keep) {
			return false, fmt.Errorf("the lab ended while it started (%w). It said:\n%s", c.reason(), indent(c.last.String()))
		}
		found, err = d.labStatus(ctx)
		if err != nil || found == nil || !found.Ready {
			return false, err
		}
		// `up` exits when the lab is ready. The state of a `run` counts only if it is our own,
		// because a killed lab leaves its state behind. With real nodes, our child starts it in namespaces of its own.
		own := c.command.Process.Pid
		return ended || found.PID == own || found.ParentPID == own, nil
	})
	if err != nil {
		return nil, err
	}
	if !d.keep {
		found.child = c
	}
	return found, nil
}

// abandonLab stops a lab that did not become ready. It removes the lab's logs
// only after an interruption.
func (d *demo) abandonLab(ctx context.Context, c *child) error {
	stopping := context.WithoutCancel(ctx)
	found, err := d.labStatus(stopping) // before the lab stops and removes its state
	err = errors.Join(err, c.stop(stopping))
	if found != nil && ctx.Err() != nil {
		err = errors.Join(err, found.removeLogs())
	}
	return err
}

func (d *demo) describeLab() {
	d.out.Line("The lab runs %d real programs. Their logs: %s", len(d.lab.Processes), d.lab.LogDir)
	d.out.Line("Two clusters: \"provider\" runs virtual machines; \"control\" holds the Machines, and the shoot's Nodes. Below,")
	for _, c := range []cluster{d.control(), d.provider()} {
		d.out.Line("  %-10s is short for KUBECONFIG=%s, namespace %s", c.name+" $", atHome(c.kubeconfig), c.namespace)
	}
	d.out.Line("Applied from the folder kubernetes: provider-cluster and provider-namespace by the admin of the provider cluster,")
	d.out.Line("control-namespace and target for machine-controller-manager. Both controllers have only these permissions.")
	if d.out.Narrow() {
		d.out.Line("Your terminal is narrow: with %d columns you will see the whole table.", screen.TableWidth)
	}
}

// labStatus returns nil if no lab of that name runs.
func (d *demo) labStatus(ctx context.Context) (*lab, error) {
	command := exec.CommandContext(ctx, filepath.Join(d.root, labProgram), "status", "--name", labName, "-o", "json")
	output, err := d.execute(command)
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 1 && strings.TrimSpace(string(output)) == "" {
		return nil, nil //nolint:nilnil // "none" is a valid answer
	}
	if err != nil {
		return nil, err
	}
	var found lab
	if err := json.Unmarshal(output, &found); err != nil {
		return nil, fmt.Errorf("decode state of the lab: %w", err)
	}
	return &found, nil
}

// stopLab stops the lab, whether it is a child or was left running in the background.
func (d *demo) stopLab(ctx context.Context) error {
	if d.lab.child != nil {
		return d.lab.child.stop(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	_, err := d.execute(exec.CommandContext(ctx, filepath.Join(d.root, labProgram), "down", "--name", labName))
	return err
}

// removeLogs removes the lab's folder, which contains only its logs at this point.
func (l *lab) removeLogs() error {
	if err := os.RemoveAll(filepath.Dir(l.LogDir)); err != nil {
		return fmt.Errorf("remove logs: %w", err)
	}
	return nil
}

// ended returns an error that names the components that no longer run.
func (l *lab) ended() error {
	var all error
	for _, p := range l.Processes {
		if !p.Running {
			all = errors.Join(all, fmt.Errorf("%s has ended, see %s", p.Name, p.Log))
		}
	}
	return all
}

// child is a program that is stopped with the demo.
type child struct {
	command *exec.Cmd
	last    *screen.Tail
	exited  chan struct{}
	err     error // set before exited is closed
}

// startChild runs a program of the repository.
func startChild(root string, output *screen.Lines, program string, args ...string) (*child, error) {
	c := &child{last: &output.Tail, exited: make(chan struct{})}
	c.command = exec.Command(filepath.Join(root, program), args...) //nolint:noctx // stop ends it in an orderly way
	c.command.Dir = root
	c.command.Stdout = output
	c.command.Stderr = output
	c.command.SysProcAttr = boundToParent()
	started := make(chan error)
	go func() {
		// The kernel kills a child when the thread that started it exits, so this thread stays
		// until the child is gone.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := c.command.Start()
		started <- err
		if err == nil {
			c.err = c.command.Wait()
			close(c.exited)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", program, err)
	}
	return c, nil
}

func (c *child) ended() bool {
	select {
	case <-c.exited:
		return true
	default:
		return false
	}
}

// reason returns why the child ended.
func (c *child) reason() error {
	if c.err != nil {
		return c.err
	}
	return errors.New("exit status 0")
}

// stop sends SIGTERM to the child, and kills it if it does not exit.
func (c *child) stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	_ = c.command.Process.Signal(syscall.SIGTERM) // if it has already exited, the next line notices
	select {
	case <-c.exited:
		return nil
	case <-ctx.Done():
	}
	_ = c.command.Process.Kill()
	<-c.exited
	return fmt.Errorf("the lab did not end within %s and was killed; it said:\n%s", stopTimeout, indent(c.last.String()))
}

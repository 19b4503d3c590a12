// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Command manager runs an interactive lab: real control planes with a simulated data plane.
//
// The command lab (test/lab) builds it and becomes it; the demos run it. The tests use package environment directly. It keeps a
// lab running in the background and describes it; everything else is in package environment.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/dataplane/kubelet"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/environment"
)

const usage = "usage: go run ./test/lab up|down|restart|status|run|build [flags]\n\nflags:\n"

func main() {
	// A second ctrl-C ends the program at once; the kernel and the reaper then clean up.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGHUP, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	// The reader of the output may be gone; that must not prevent an orderly stop of the lab.
	signal.Ignore(syscall.SIGPIPE)
	err := command(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
	case errors.Is(err, errNotRunning):
		os.Exit(1)
	case err != nil:
		fmt.Fprintln(os.Stderr, "lab:", err)
		os.Exit(1)
	}
}

// request holds the command line options.
type request struct {
	name        string
	shoot       string
	sidecar     string
	sidecarArgs string
	driver      string
	driverArgs  string
	output      string
	keepLogs    bool
	gardener    bool
	monitoring  bool
	nodes       string
	nodeCount   int
	isolated    bool
	guestImage  bool
}

// The values of --nodes.
const (
	simulated = "simulated"
	realOnes  = "real"
)

// maxNodes is the number of addresses for real nodes and their pods.
const maxNodes = 50

// commands are the functions of the commands.
var commands = map[string]func(context.Context, request, io.Writer) error{
	"up":      up,
	"down":    down,
	"restart": restart,
	"status":  status,
	"run":     run,
	"build":   build,
}

func command(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	name, r, err := parse(args, stderr)
	if err != nil {
		return err
	}
	return commands[name](ctx, r, stdout)
}

// parse returns the name of a known command, and its options. It starts nothing.
func parse(args []string, stderr io.Writer) (name string, r request, err error) {
	flags := flag.NewFlagSet("lab", flag.ContinueOnError)
	flags.SetOutput(stderr)
	r.define(flags)
	flags.Usage = func() { fmt.Fprint(stderr, usage); flags.PrintDefaults() }
	if len(args) == 0 {
		flags.Usage()
		return "", r, errors.New("no command given")
	}
	name = args[0]
	if slices.Contains([]string{"help", "-h", "-help", "--help"}, name) {
		flags.Usage()
		return "", r, flag.ErrHelp
	}
	if commands[name] == nil {
		flags.Usage()
		return "", r, fmt.Errorf("no command %q", name)
	}
	if err := flags.Parse(args[1:]); err != nil {
		return "", r, fmt.Errorf("read flags: %w", err)
	}
	err = r.check(flags.Args()) // It changes r, so it must not be in the same statement.
	return name, r, err
}

// define defines the flags of all commands.
func (r *request) define(flags *flag.FlagSet) {
	flags.StringVar(&r.name, "name", "default", "which lab; several can run at once")
	flags.StringVar(&r.shoot, "shoot", "", "add a shoot of this name, with machine-controller-manager (up, run)")
	flags.StringVar(&r.sidecar, "sidecar", "", "machine-controller binary to run for the shoot (up, run)")
	flags.StringVar(&r.sidecarArgs, "sidecar-args", "", "more arguments for the sidecar, separated by spaces (up, run)")
	flags.StringVar(&r.driver, "driver", "", "mcm-kubevirt binary that runs the driver over gRPC, for the sidecar (up, run)")
	flags.StringVar(&r.driverArgs, "driver-args", "", "more arguments for the driver, separated by spaces (up, run)")
	flags.BoolVar(&r.gardener, "gardener", false, "for the Gardener extension: a separate target cluster, and gardener-resource-manager (up, run, build)")
	flags.BoolVar(&r.monitoring, "monitoring", false, "for tests of alerts and dashboards: Prometheus' parser and rules (build)")
	flags.StringVar(&r.nodes, "nodes", simulated, "simulated, or real: kubelet, containerd, virt-handler and QEMU; needs root (up, run, build)")
	flags.BoolVar(&r.isolated, "isolated", false, "with --nodes=real: the caller has left the network of this machine, and stays in that of the lab (run)")
	flags.BoolVar(&r.guestImage, "guest-image", false, "with --nodes=real: also the disk image of workers that join (up, run, build)")
	flags.IntVar(&r.nodeCount, "node-count", 2, "the number of real nodes (up, run)") //nolint:mnd // machines can migrate
	flags.BoolVar(&r.keepLogs, "keep-logs", false, "leave the logs behind when the lab stops (up, run)")
	flags.StringVar(&r.output, "o", "", "json: print the state for programs (status)")
}

func build(ctx context.Context, r request, stdout io.Writer) error {
	if err := environment.Prepare(ctx, r.options(stdout)); err != nil || !r.guestImage {
		return err
	}
	_, err := environment.EnsureGuestImage(ctx, stdout)
	return err
}

// options returns those of the lab.
func (r *request) options(out io.Writer) environment.Options {
	options := environment.Options{
		Progress:       out,
		KeepLogs:       r.keepLogs,
		SeparateTarget: r.gardener,
		Gardener:       r.gardener,
		Monitoring:     r.monitoring,
	}
	if r.nodes == realOnes {
		options.RealNodes = r.nodeCount
	}
	if r.gardener {
		options.Nodes = append(kubelet.DefaultNodes(), kubelet.GuideNodes()...)
	}
	return options
}

func (r *request) check(rest []string) error {
	switch {
	case len(rest) > 0:
		return fmt.Errorf("unexpected argument %q", rest[0])
	case r.name == "" || strings.ContainsAny(r.name, "/\\. "):
		return fmt.Errorf("--name %q: want a name that can be part of a file's", r.name)
	case r.sidecar != "" && r.shoot == "":
		return errors.New("--sidecar needs --shoot")
	case r.driver != "" && r.sidecar == "":
		return errors.New("--driver needs --sidecar")
	}
	return errors.Join(r.checkNodes(), r.findPrograms())
}

func (r *request) checkNodes() error {
	switch {
	case r.nodes != simulated && r.nodes != realOnes:
		return fmt.Errorf("--nodes=%s: want simulated or real", r.nodes)
	case r.nodes != realOnes && (r.isolated || r.guestImage):
		return errors.New("--isolated and --guest-image need --nodes=real")
	case r.nodeCount < 1 || r.nodeCount > maxNodes:
		return fmt.Errorf("--node-count=%d: want 1 to %d", r.nodeCount, maxNodes)
	}
	return nil
}

// findPrograms makes the paths of programs absolute.
func (r *request) findPrograms() (err error) {
	if r.sidecar, err = program(r.sidecar); err != nil {
		return fmt.Errorf("--sidecar: %w", err)
	}
	if r.driver, err = program(r.driver); err != nil {
		return fmt.Errorf("--driver: %w", err)
	}
	return nil
}

// program returns the absolute path of a program, or "" if path is empty.
func program(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	found, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("find it: %w", err)
	}
	_, err = os.Stat(found)
	return found, err
}

// arguments returns the command line that makes `run` do what was requested from `up`.
func (r *request) arguments() []string {
	args := []string{"run", "--name=" + r.name, "--shoot=" + r.shoot, "--sidecar=" + r.sidecar, "--sidecar-args=" + r.sidecarArgs}
	args = append(args, "--driver="+r.driver, "--driver-args="+r.driverArgs)
	return append(args, fmt.Sprintf("--keep-logs=%t", r.keepLogs), fmt.Sprintf("--gardener=%t", r.gardener), "--nodes="+r.nodes, fmt.Sprintf("--node-count=%d", r.nodeCount),
		fmt.Sprintf("--guest-image=%t", r.guestImage))
}

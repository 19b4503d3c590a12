// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Command lab controls labs, real control planes with a simulated data plane, and runs scenarios on them:
//
//	go run ./test/lab up|down|restart|status|run|build [flags]
//	go run ./test/lab scenario demo|demo-shoot|landscape
//
// Developers, `make` and CI call it. It builds the program that does the work, which takes minutes the first time, and becomes
// it. It imports almost nothing, so that its first output appears within seconds, before any dependency is downloaded.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/compile"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/screen"
)

const usage = `usage: go run ./test/lab COMMAND [flags]

  up             start a lab in the background and return when it is ready
  down           stop it and remove its data
  restart        restart the sidecar of a lab that runs, for example after a build
  status         say what runs (-o json for programs); exit code 1 if nothing does
  run            run a lab in the foreground until ctrl-C
  build          build what a lab runs, unless it was built before, and start nothing
  scenario NAME  build and run demo, demo-shoot or landscape (as make does)

COMMAND -h prints the flags.
`

// program is one that the command builds and becomes.
type program struct {
	module, pkg, output string
	// arguments is set if the program reads arguments.
	arguments bool
}

// manager implements all commands except scenario.
var manager = program{pkg: "./test/lab/manager", output: "bin/lab-manager", arguments: true}

// scenarios are the programs that start a lab of their own, and show something on it.
var scenarios = map[string]program{
	"demo":       {pkg: "./test/demo", output: "bin/demo"},
	"demo-shoot": {module: "extension", pkg: "./test/demo", output: "bin/demo-shoot"},
	"landscape":  {module: "extension", pkg: "./test/landscape", output: "bin/landscape", arguments: true},
}

// scenario is the command that runs one of them.
const scenario = "scenario"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGHUP, syscall.SIGTERM)
	err := command(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "lab:", err)
		os.Exit(1)
	}
}

// command builds the program for the arguments, and becomes it.
func command(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if asksForHelp(args) {
		fmt.Fprint(stderr, usage)
		return nil
	}
	p, err := choose(args)
	if err != nil {
		fmt.Fprint(stderr, usage)
		return err
	}
	progress := stderr // programs read the output of status
	if args[0] == scenario {
		progress = stdout
		args = args[2:]
	}
	root, err := compile.Root()
	if err != nil {
		return err
	}
	output := screen.New(progress)
	err = compile.Build(ctx, &screen.Lines{Screen: output}, compile.Program{
		Name:     filepath.Base(p.output),
		Root:     root,
		Module:   p.module,
		Packages: p.pkg,
		Output:   p.output,
	})
	output.Settle()
	if err != nil {
		return err
	}
	file := filepath.Join(root, p.output)
	if err := syscall.Exec(file, append([]string{file}, args...), os.Environ()); err != nil {
		return fmt.Errorf("run %s: %w", file, err)
	}
	return nil
}

// asksForHelp reports whether the arguments ask for the usage of this command. The manager prints that of its commands.
func asksForHelp(args []string) bool {
	words := []string{"help", "-h", "-help", "--help"}
	return len(args) > 0 && (slices.Contains(words, args[0]) || args[0] == scenario && len(args) > 1 && slices.Contains(words, args[1]))
}

// choose returns the program for the arguments.
func choose(args []string) (program, error) {
	switch {
	case len(args) == 0:
		return program{}, errors.New("no command given")
	case args[0] == scenario:
		return chooseScenario(args[1:])
	case slices.Contains([]string{"up", "down", "restart", "status", "run", "build"}, args[0]):
		return manager, nil
	default:
		return program{}, fmt.Errorf("no command %q", args[0])
	}
}

// chooseScenario returns the program for a scenario's name and arguments.
func chooseScenario(args []string) (program, error) {
	names := strings.Join(slices.Sorted(maps.Keys(scenarios)), ", ")
	if len(args) == 0 {
		return program{}, errors.New("scenario: no name given; the scenarios are " + names)
	}
	p, known := scenarios[args[0]]
	switch {
	case !known:
		return program{}, fmt.Errorf("no scenario %q; the scenarios are %s", args[0], names)
	case len(args) > 1 && !p.arguments:
		return program{}, fmt.Errorf("scenario %s: unexpected argument %q; its options are environment variables, see `make help`", args[0], args[1])
	}
	return p, nil
}

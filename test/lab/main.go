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
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/demo/screen"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/compile"
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
type program struct{ module, pkg, output string }

// manager implements all commands except scenario.
var manager = program{pkg: "./test/lab/manager", output: "bin/lab-manager"}

// scenarios are the programs that start a lab of their own, and show something on it.
var scenarios = map[string]program{
	"demo":       {pkg: "./test/demo", output: "bin/demo"},
	"demo-shoot": {module: "extension", pkg: "./test/demo", output: "bin/demo-shoot"},
	"landscape":  {module: "extension", pkg: "./test/landscape", output: "bin/landscape"},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "lab:", err)
		os.Exit(1)
	}
}

// command builds the program for the arguments, and becomes it.
func command(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) > 0 && slices.Contains([]string{"help", "-h", "-help", "--help"}, args[0]) {
		fmt.Fprint(stderr, usage)
		return nil
	}
	p, err := choose(args)
	if err != nil {
		fmt.Fprint(stderr, usage)
		return err
	}
	progress := stderr // programs read the output of status
	if args[0] == "scenario" {
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

// choose returns the program for the arguments.
func choose(args []string) (program, error) {
	switch {
	case len(args) == 0:
		return program{}, errors.New("no command given")
	case args[0] == "scenario" && len(args) == 1:
		return program{}, errors.New("scenario: no name given")
	case args[0] == "scenario":
		p, known := scenarios[args[1]]
		if !known {
			return program{}, fmt.Errorf("no scenario %q", args[1])
		}
		return p, nil
	case slices.Contains([]string{"up", "down", "restart", "status", "run", "build"}, args[0]):
		return manager, nil
	default:
		return program{}, fmt.Errorf("no command %q", args[0])
	}
}

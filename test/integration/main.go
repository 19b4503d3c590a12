// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Command integration runs the integration tests: it starts a lab, runs the topic packages below
// this folder against it, several at a time, and checks their records.
//
//	go run ./test/integration [flags of go test]
//
// -p is the number of packages that run at a time, and -parallel that of the tests in each. The
// exit code is 1 if a test or a check of the whole run failed; the logs of all components are kept
// then. Ctrl-C ends the tests and the lab.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"strings"
	"syscall"
	"time"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/suite"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/binaries"
)

const (
	folder  = "github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration"
	harness = folder + "/harness"
	// all are the topic packages, and the unit tests of the packages that they share.
	all = folder + "/..."
)

func main() {
	// A second ctrl-C ends the program at once; the kernel and the lab's reaper then clean up.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)

	passed, err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)

	stop()

	if err != nil {
		fmt.Fprintln(os.Stderr, "integration:", err)
	}

	if err != nil || !passed {
		os.Exit(1)
	}
}

// run reports whether all tests and the checks of the whole run passed.
func run(ctx context.Context, flags []string, stdout, stderr io.Writer) (passed bool, err error) {
	topics, err := topicPackages(ctx)
	if err != nil {
		return false, err
	}

	s, err := suite.Start(ctx, stderr)
	if err != nil {
		return false, err
	}

	defer func() {
		if s.Lab.KeepLogs = ctx.Err() == nil && (err != nil || !passed); s.Lab.KeepLogs {
			fmt.Fprintln(stderr, "integration: the lab's logs are in", s.Lab.LogDir)
		}

		err = errors.Join(err, s.Stop(context.WithoutCancel(ctx)))
	}()

	variable, err := s.Share(ctx)
	if err != nil {
		return false, err
	}

	began := time.Now()
	tests := goTest(ctx, flags)
	tests.Env = append(os.Environ(), variable)
	tests.Stdout = stdout
	tests.Stderr = stderr

	failed := tests.Run() // The tests have already reported the reason.
	if ctx.Err() != nil {
		return false, errors.New("interrupted")
	}

	verdict, err := s.Judge(topics)
	if err != nil {
		return false, err
	}

	fmt.Fprintln(stderr, verdict)
	fmt.Fprintln(stderr, matrixRow(s.Lab.Binaries, time.Since(began), failed == nil && verdict.Passed()))

	return failed == nil && verdict.Passed(), nil
}

// matrixRow names the versions that the tests ran with, for docs/compatibility.md.
func matrixRow(b *binaries.Binaries, took time.Duration, passed bool) string {
	result := "not all tests passed"
	if passed {
		result = "all tests passed"
	}

	return fmt.Sprintf("Kubernetes %s, KubeVirt %s, CDI %s: %s, %s", b.KubernetesVersion, b.KubeVirtVersion, b.CDIVersion, result, took.Round(time.Second))
}

// topicPackages returns the names of the packages that join the suite.
func topicPackages(ctx context.Context) ([]string, error) {
	list := exec.CommandContext(ctx, "go", "list", "-f", `{{range .TestImports}}{{if eq . "`+harness+`"}}{{$.ImportPath}}{{"\n"}}{{end}}{{end}}`, all)
	list.Stderr = os.Stderr

	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("list the topic packages: %w", err)
	}

	var names []string
	for importPath := range strings.FieldsSeq(string(out)) {
		names = append(names, path.Base(importPath))
	}

	return names, nil
}

// longest are the topics that take longest, and wait for much of it. They start first, so that none
// of them runs alone at the end.
var longest = []string{"preflight", "shoot", "crash", "evacuation", "lifecycle", "images", "contract", "manifests"}

// patience is the time that interrupted tests have to stop their processes. The suite stops the
// remaining processes.
const patience = time.Minute

// goTest returns the command that runs the tests, without Go's cache of test results.
//
// It has its own process group, so that ctrl-C reaches only this program, which then interrupts the
// group: `go test` starts no further package, and the tests stop their processes.
func goTest(ctx context.Context, flags []string) *exec.Cmd {
	// Without symbols for debuggers, linking takes two thirds of the time.
	args := append([]string{"test", "-count=1", "-ldflags=-s -w"}, flags...)
	for _, topic := range longest {
		args = append(args, folder+"/"+topic)
	}

	tests := exec.CommandContext(ctx, "go", append(args, all)...)
	tests.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	tests.Cancel = func() error { return syscall.Kill(-tests.Process.Pid, syscall.SIGINT) }
	tests.WaitDelay = patience

	return tests
}

// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

// Package harness is shared by the topic packages of the integration tests. It provides a lab with
// real control planes, shoots with their own namespaces, identities and controllers, the driver as
// the sidecar wires it, and waits for states.
//
//	func TestMain(m *testing.M) { os.Exit(harness.Main(context.Background(), m)) }
//
//	func TestX(t *testing.T) {
//		s, d := harness.NewShoot(t), harness.NewDriver(harness.Settings{Grace: time.Minute})
//		m := s.NewMachine("zone-a", harness.ImportedRoot)
//		…
//
// Only tests call it. It records the driver's output and requests; package suite checks the records
// of all packages. Code for a single topic belongs in the topic's package.
package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"testing"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/suite"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/environment"
)

// joined is the suite of this process, and lab its lab. Both are set before the first test.
var (
	joined *suite.Suite
	lab    *environment.Lab
)

// recorder records the driver's output and its requests.
var recorder *recording

// Lab returns the lab, which all tests share; each creates its own shoots.
func Lab() *environment.Lab { return lab }

// Sidecar returns the path of the machine-controller under test.
func Sidecar() string { return joined.Sidecar() }

// RemoteDriver returns the path of the mcm-kubevirt under test.
func RemoteDriver() string { return joined.RemoteDriver() }

// Main runs the tests of a package, and returns the exit code. It joins the suite that the command
// test/integration has started, which then checks the records. Otherwise it starts a suite for this
// package alone, checks its record, and ends the suite.
// The options apply to a suite that it starts.
func Main(ctx context.Context, m *testing.M, options ...suite.Option) int {
	code, err := run(ctx, m, options)
	if err != nil {
		fmt.Fprintln(os.Stderr, "integration:", err)

		return 1
	}

	return code
}

func run(ctx context.Context, m *testing.M, options []suite.Option) (code int, err error) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()

	if joined, err = suite.Open(ctx, os.Stderr, options...); err != nil {
		return 0, err
	}

	lab = joined.Lab

	// An aborted run only cleans up.
	abort := func() {
		_ = joined.Stop(context.WithoutCancel(ctx))

		os.Exit(1)
	}
	release := context.AfterFunc(ctx, abort)

	go func() { // The channel is nil, and blocks forever, if the suite is this process' own.
		<-lab.Ended()

		if release() {
			fmt.Fprintln(os.Stderr, "integration: the suite has ended")
			abort()
		}
	}()

	code, err = runRecorded(ctx, m)

	release()

	if code != 0 && !joined.Joined() {
		lab.KeepLogs = true
		fmt.Fprintln(os.Stderr, "integration: the lab's logs are in", lab.LogDir)
	}

	return code, errors.Join(err, joined.Stop(context.WithoutCancel(ctx)))
}

// runRecorded runs the tests and reports to the suite. In a suite of this process it also fails if
// the suite's checks do.
func runRecorded(ctx context.Context, m *testing.M) (code int, err error) {
	// client-go's output at the highest levels is searched too.
	lab.SidecarArgs = []string{"--v=" + strconv.Itoa(everything)}

	recorder, err = record(ctx, lab.LogDir)
	if err != nil {
		return 1, err
	}

	code = m.Run()

	report, err := recorder.finish()
	if err != nil {
		return 1, err
	}

	if err := joined.Report(report); err != nil || joined.Joined() {
		return code, err
	}

	verdict, err := joined.Judge(nil)
	if err != nil {
		return 1, err
	}

	fmt.Fprintln(os.Stderr, verdict)

	if !verdict.Passed() {
		return 1, nil
	}

	return code, nil
}

// Package integration tests the driver against real control planes: kube-apiserver,
// KubeVirt's and CDI's own controllers and machine-controller-manager's. Only the data plane
// is simulated, in test/lab.
package integration

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/environment"
)

// lab is shared by all tests of the package; each creates its own shoots.
var lab *environment.Lab

// sidecar and remoteDriver are the paths of the binaries under test:
// machine-controller and mcm-kubevirt.
var sidecar, remoteDriver string

// recorder records the driver's output for the final search for secrets.
var recorder *recording

func TestMain(m *testing.M) {
	code, err := run(context.Background(), m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "integration:", err)
		os.Exit(1)
	}

	os.Exit(code)
}

func run(ctx context.Context, m *testing.M) (code int, err error) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()

	dir, err := os.MkdirTemp("", "machine-controller-")
	if err != nil {
		return 0, err
	}

	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()

	sidecar, remoteDriver = filepath.Join(dir, "machine-controller"), filepath.Join(dir, "mcm-kubevirt")

	build := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", dir, "../../cmd/...")
	if out, err := build.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("build the commands: %w\n%s", err, out)
	}

	lab, err = environment.Start(ctx, environment.Options{Progress: os.Stderr, Nodes: nodes()})
	if err != nil {
		return 0, err
	}

	release := context.AfterFunc(ctx, func() {
		_ = lab.Stop(context.WithoutCancel(ctx)) // The run is aborted; only clean up.

		os.Exit(1)
	})

	code, err = runRecorded(ctx, m)

	release()

	if code != 0 {
		lab.KeepLogs = true
		fmt.Fprintln(os.Stderr, "integration: the lab's logs are in", lab.LogDir)
	}

	return code, errors.Join(err, lab.Stop(context.WithoutCancel(ctx)))
}

// runRecorded runs the tests. It fails the run if the driver's output contains a secret, if the
// driver made a call that the crash matrix does not cover, or if the shipped rights are not
// exactly the required ones.
func runRecorded(ctx context.Context, m *testing.M) (code int, err error) {
	// client-go's output at the highest levels is searched too.
	lab.SidecarArgs = []string{"--v=" + strconv.Itoa(everything)}

	recorder, err = record(ctx, lab.LogDir)
	if err != nil {
		return 1, err
	}

	code = m.Run()

	found, err := recorder.finish()
	if err != nil {
		return 1, err
	}

	audited, err := auditRights()
	if err != nil {
		return 1, err
	}

	fmt.Fprintf(os.Stderr, "%s\n%s\n%s\n%s\n", recorder, found, recorder.requests, audited)

	if len(found.findings) > 0 || len(recorder.requests.unmet()) > 0 || audited.wrong() {
		return 1, nil
	}

	return code, nil
}

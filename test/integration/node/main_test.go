// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

//go:build node

package node

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"testing"

	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/harness"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/integration/suite"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/environment"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/node"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/node/host"
	"github.com/gardener/machine-controller-manager-provider-kubevirt/test/lab/node/root"
)

// guestImage is the disk image of guests with kubelet.
var guestImage string

// TestMain runs no test on a machine that cannot run nodes, unless LAB_NODES=required.
func TestMain(m *testing.M) {
	flag.Parse()

	ctx := context.Background()

	if code, text := host.Refusal(environment.CheckNodes(ctx), os.Getenv("LAB_NODES")); text != "" {
		fmt.Fprintln(os.Stderr, text)
		os.Exit(code)
	}

	if err := isolate(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "node:", err)
		os.Exit(1)
	}

	code := harness.Main(ctx, m, options()...)
	printTable(os.Stdout, versions(ctx))
	os.Exit(code)
}

// options are those of the suite.
func options() []suite.Option {
	if onlyMigrates() {
		return []suite.Option{suite.RealNodes, suite.BareNodes}
	}

	return []suite.Option{suite.RealNodes}
}

// onlyMigrates reports whether this run consists of the test of `make test-migration`, which needs the fewest programs.
func onlyMigrates() bool { return flag.Lookup("test.run").Value.String() == "^TestLiveMigration$" }

// isolate builds what the lab runs, and then leaves the network of this machine.
func isolate(ctx context.Context) error {
	if err := suite.Prepare(ctx, os.Stderr, options()...); err != nil {
		return err
	}

	if onlyMigrates() {
		return node.Isolate()
	}

	var err error
	if guestImage, err = environment.EnsureGuestImage(ctx, os.Stderr); err != nil {
		return err
	}

	if err := prepareCloudController(ctx); err != nil {
		return err
	}

	return node.Isolate()
}

// versions describes what the suite has run.
func versions(ctx context.Context) []string {
	folder, err := root.Ensure(ctx, io.Discard)
	if err != nil {
		return []string{err.Error()}
	}

	found, err := root.Versions(folder, "containerd", "libvirt-daemon", "qemu-system-x86")
	if err != nil {
		return []string{err.Error()}
	}

	if guestImage != "" {
		inGuest, err := root.Versions(guestImage, "cloud-init", "linux-image-cloud-amd64", "qemu-guest-agent", "systemd")
		if err != nil {
			return []string{err.Error()}
		}

		for _, version := range inGuest {
			found = append(found, "guest: "+version)
		}
	}

	built := harness.Lab().Binaries

	return append([]string{
		fmt.Sprint("Kubernetes ", built.KubernetesVersion), fmt.Sprint("KubeVirt ", built.KubeVirtVersion), fmt.Sprint("CDI ", built.CDIVersion),
		fmt.Sprint("KVM ", node.HasKVM()),
	}, found...)
}

// prepareCloudController lets the test that builds the extension's cloud-controller-manager need no network.
func prepareCloudController(ctx context.Context) error {
	folder, err := os.MkdirTemp("", "cloud-controller-")
	if err != nil {
		return err
	}

	_, err = harness.BuildCloudController(ctx, folder)

	return errors.Join(err, os.RemoveAll(folder))
}
